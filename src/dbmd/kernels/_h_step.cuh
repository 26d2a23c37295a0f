// What the kernels of the H-step share: constants of _faces.py, _pivoting.py and _tolerance.py.
//
// min 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex, for each row b of Bt, in float64 for either type REAL of the data.
// Without a prior, samples are solved exactly on faces of the simplex, as in _pivoting.py:
//   h_few.cu     up to a dozen components, a constant: a thread for each sample, all in registers;
//   h_many.cu    more components: LANES threads share a sample, the triangle that they eliminate is in shared memory.
// Samples for which no face is found are marked by a first membership of -1, and
//   h_inside.cu  takes those, or all samples if there is a prior: the interior-point method of _interior_point.py.
// What is computed for a sample depends on that sample alone.

#define LEAST 1e-12     // as in _faces.py
#define POSITIVE 1e-6
#define SLACK 1e-12
#define REGULAR 1e5
#define TRIES 50        // as in _pivoting.py
#define PATIENCE 3
#define MAX_STEPS 60    // as in _tolerance.py
#define STEPS 20        // there it is PATIENCE
#define SHORT 0.3
#define TO_BOUNDARY 0.99
#define LIFT 1e-2
#define BALANCE 0.1
#define AT_ZERO 1e-11
#define TOL 1e-10
#define PART 1e-4
#define ROUNDING 1e-15
#define MARK -1.0       // first membership of a sample that is left

#ifdef LANES  // threads that share a sample, each of which has SLOTS components

#ifndef __CUDACC__
#undef SLOTS
#define SLOTS 256
#endif

#define FOR_OWN for (int c = 0, k = lane_of_group(); c < SLOTS; c++, k += LANES) if (k < r)

#ifdef ROOMS_OUTSIDE  // in global memory, where shared memory is too small
#define ROOMS(name, size) double *name = rooms + (long long)blockIdx.x * (THREADS / LANES) * (size)
#else
#define ROOMS(name, size) DYNAMIC_SHARED(double, name)
#endif

#endif
