// How many samples are on each face of the simplex, for few components.

#define POSITIVE 1e-6  // as in _faces.py

// Count the samples on each face: whole numbers, whose sums do not depend on the order.
//   counts   one for each face; bit k of a face says whether component k is on it
extern "C" __global__ void __launch_bounds__(THREADS)
count_faces(const REAL *__restrict__ Ht, long long n, int r, unsigned long long *counts) {
    DYNAMIC_SHARED(unsigned, own);
    const int n_faces = 1 << r;
    for (int face = threadIdx.x; face < n_faces; face += THREADS) own[face] = 0;
    __syncthreads();
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
        unsigned face = 0;
        for (int k = 0; k < r; k++) face |= (unsigned)(Ht[i * r + k] > (REAL)POSITIVE) << k;
        atomicAdd(&own[face], 1u);
    }
    __syncthreads();
    for (int face = threadIdx.x; face < n_faces; face += THREADS)
        if (own[face]) atomicAdd(&counts[face], (unsigned long long)own[face]);
}
