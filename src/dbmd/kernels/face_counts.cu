// How many samples are on each face of the simplex, for few components.

#ifndef __CUDACC__
INLINE void atomicAdd(unsigned *to, unsigned number) { *to += number; }
INLINE void atomicAdd(unsigned long long *to, unsigned long long number) { *to += number; }
#endif

// Weights are counted in steps of 2^-24, and what is left in steps of 2^-56.
#define FINE 16777216.0
#define FINER 4294967296.0
#define POSITIVE 1e-6  // as in _faces.py

// Add the weight of each sample to the count of its face: whole numbers, whose sums do not depend on the order.
//   counts   two numbers for each face, in steps of 2^-24 and of 2^-56; bit k of a face says whether component k is on it
extern "C" __global__ void __launch_bounds__(THREADS)
count_faces(const REAL *__restrict__ Ht, const double *__restrict__ weights, long long n, int r,
            unsigned long long *counts) {
    DYNAMIC_SHARED(unsigned, own);
    const int n_faces = 1 << r;
    for (int face = threadIdx.x; face < n_faces; face += THREADS) own[face] = 0;
    __syncthreads();
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
        unsigned face = 0;
        for (int k = 0; k < r; k++) face |= (unsigned)(Ht[i * r + k] > (REAL)POSITIVE) << k;
        if (!weights) {
            atomicAdd(&own[face], 1u);
        } else if (weights[i] > 0.0) {
            const double steps = weights[i] * FINE, whole = floor(steps);
            atomicAdd(&counts[2 * face], (unsigned long long)whole);
            const unsigned long long rest = (unsigned long long)((steps - whole) * FINER);
            if (rest) atomicAdd(&counts[2 * face + 1], rest);
        }
    }
    __syncthreads();
    for (int face = threadIdx.x; face < n_faces; face += THREADS)
        if (own[face]) atomicAdd(&counts[2 * face], (unsigned long long)own[face] * (unsigned long long)FINE);
}
