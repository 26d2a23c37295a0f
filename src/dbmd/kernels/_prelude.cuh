// What all CUDA sources here begin with. A C++ compiler takes them, too: then one thread does the work of a block, and
// the tests compare it with the oracle. So a kernel
//   - is extern "C" __global__, and begins with its name;
//   - takes the number of threads of a block from THREADS, of those that share a sample from LANES, never from blockDim;
//   - visits its share of the work in steps of the whole grid, so that any number of blocks is right;
//   - keeps what the threads of a block share in SHARED arrays, or in the dynamic array of DYNAMIC_SHARED.
#ifdef __CUDACC__

#define SHARED __shared__
#define DYNAMIC_SHARED(type, name) \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    type *name = reinterpret_cast<type *>(dynamic_shared)

// Copies from global to shared memory that a thread does not wait for. They are counted in batches: end_copies() ends one,
// wait_copies<N>() waits until all but the last N have arrived. What is not wanted is zero. Older devices wait at once.
template <int BYTES>
__device__ __forceinline__ void copy_later(void *to, const void *from, bool is_wanted) {
#if __CUDA_ARCH__ >= 800
    const unsigned address = __cvta_generic_to_shared(to), wanted = is_wanted ? BYTES : 0;
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(wanted) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(from), "r"(wanted), "n"(BYTES)
                     : "memory");
    }
#else
    struct alignas(BYTES) Piece {
        unsigned words[BYTES / 4];
    } piece = {};
    if (is_wanted) piece = *static_cast<const Piece *>(from);
    *static_cast<Piece *>(to) = piece;
#endif
}

__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N>
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// d = a b + c for matrices of 16 x 8, 8 x 8 and 16 x 8 numbers on tensor cores. Each thread of a warp has some of them: for
// g = lane / 4 and t = lane % 4, of a (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), of b (t, g), (t + 4, g), and of c and d
// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). Of a and b eleven bits count, and sums are truncated. Older devices
// lack it.
__device__ __forceinline__ void tensor_multiply(float (&d)[4], const float (&a)[4], const float (&b)[2], const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
          "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

// c += a b for matrices of 8 x 4, 4 x 8 and 8 x 8 numbers of float64 on tensor cores, which lose nothing: each thread has of a
// (g, t), of b (t, g), of c (g, 2 t) and (g, 2 t + 1).
__device__ __forceinline__ void tensor_multiply(double (&c)[2], double a, double b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
#endif
}

#else  // a C++ compiler

#include <assert.h>
#include <math.h>
#include <string.h>
#include <stdint.h>

#undef THREADS
#undef LANES
#define THREADS 1
#define LANES 1
#define __global__
#define __device__ static
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define SHARED static
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(dynamic_shared)
#define __syncthreads()
#define __syncwarp(...)

struct Index { int x; };
extern "C" {
Index threadIdx = {0}, blockIdx = {0}, gridDim = {1};
}
alignas(16) static unsigned char dynamic_shared[1 << 18];

template <int BYTES>
static void copy_later(void *to, const void *from, bool is_wanted) {
    assert((uintptr_t)to % BYTES == 0 && (uintptr_t)from % BYTES == 0);  // a device would refuse
    if (is_wanted) {
        memcpy(to, from, BYTES);
    } else {
        memset(to, 0, BYTES);
    }
}
static void end_copies() {}
template <int N>
static void wait_copies() {}

template <class Number>
static Number atomicAdd(Number *to, Number number) {
    const Number before = *to;
    *to = before + number;
    return before;
}

#endif

// What the threads of a warp, or the LANES threads that share a sample, tell each other. All threads of a warp call these
// together: groups that go different ways would be served one after the other. Sums are in an order that depends on LANES
// alone, and every thread of a group has the same bits.
#ifdef __CUDACC__

#define WARP 32
#define INLINE __device__ __forceinline__
INLINE unsigned warp_ballot(bool is_true) { return __ballot_sync(0xffffffffu, is_true); }
INLINE int lane_of_warp() { return threadIdx.x % 32; }
INLINE int count_bits(unsigned bits) { return __popc(bits); }
INLINE int last_bit(unsigned bits) { return 31 - __clz(bits); }

#ifdef LANES
INLINE int lane_of_group() { return threadIdx.x % LANES; }
INLINE unsigned group_ballot(bool is_true) {
    return (__ballot_sync(0xffffffffu, is_true) >> (threadIdx.x % 32 / LANES * LANES)) & (0xffffffffu >> (32 - LANES));
}
INLINE double group_sum(double x) {
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
INLINE double group_max(double x) {
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
INLINE int group_sum(int x) {
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
INLINE int most_of_groups(int x) {  // x is the same for the threads of a group
#pragma unroll
    for (int step = LANES; step < 32; step *= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
#endif

#else  // one thread is all

#define WARP 1
#define INLINE inline
INLINE unsigned warp_ballot(bool is_true) { return is_true; }
INLINE int lane_of_warp() { return 0; }
INLINE int count_bits(unsigned bits) { return __builtin_popcount(bits); }
INLINE int last_bit(unsigned bits) { return 31 - __builtin_clz(bits); }
INLINE int lane_of_group() { return 0; }
INLINE unsigned group_ballot(bool is_true) { return is_true; }
INLINE double group_sum(double x) { return x; }
INLINE double group_max(double x) { return x; }
INLINE int group_sum(int x) { return x; }
INLINE int most_of_groups(int x) { return x; }
INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }

#endif

// One over the square root: that of float32, and a step of third order.
INLINE double inverse_root(double x) {
    if (!(x > 1e-30 && x < 1e30)) return rsqrt(x);
    const double y = rsqrtf((float)x), error = 1.0 - x * y * y;
    return y + y * error * (0.5 + 0.375 * error);
}
