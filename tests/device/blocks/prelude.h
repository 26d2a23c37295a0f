// What a CUDA source needs to be compiled by a C++ compiler and run with all threads of a block.
#include <math.h>
#include <string.h>
#include "runtime.h"

#define UNWATCHED __attribute__((no_sanitize("thread")))
#define __CUDACC__
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))  // so that a return address is a place in the kernel
#define __launch_bounds__(...)
#define threadIdx emulator::indices.thread
#define blockIdx emulator::indices.block
#define gridDim emulator::indices.grid
#define INTRINSIC static inline __attribute__((always_inline))

INTRINSIC void __syncthreads() { emulator::meet(emulator::SYNCTHREADS); }
INTRINSIC void __syncwarp() { emulator::meet(emulator::SYNCWARP); }
INTRINSIC unsigned __ballot_sync(unsigned, bool is_true) { return emulator::meet(emulator::BALLOT, is_true); }
template <class T>
INTRINSIC T shuffle(T value, int source) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulator::meet(emulator::SHUFFLE, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T>
INTRINSIC T __shfl_sync(unsigned, T value, int source, int width = 32) {
    return shuffle(value, threadIdx.x % 32 / width * width + source % width);
}
template <class T>
INTRINSIC T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
    const int lane = threadIdx.x % 32, source = lane ^ mask;
    return shuffle(value, source / width > lane / width ? lane : source);
}
template <class T>
UNWATCHED static T atomicAdd(T *to, T number) {
    emulator::note_atomic(to, sizeof number);
    const T before = *to;
    *to += number;
    return before;
}
INTRINSIC int __popc(unsigned bits) { return __builtin_popcount(bits); }
INTRINSIC int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
INTRINSIC int max(int a, int b) { return a > b ? a : b; }
INTRINSIC float __fmul_rn(float a, float b) { return a * b; }
INTRINSIC float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
INTRINSIC float rsqrtf(float x) { return 1.0f / sqrtf(x); }
INTRINSIC double rsqrt(double x) { return 1.0 / sqrt(x); }

// The warp functions of the project's prelude are used as they are; its shared memory and its copies are replaced.
#define copy_later copy_later_of_cuda
#define end_copies end_copies_of_cuda
#define wait_copies wait_copies_of_cuda
#define tensor_multiply tensor_multiply_of_cuda
#include "_prelude.cuh"
#undef copy_later
#undef end_copies
#undef wait_copies
#undef tensor_multiply
#undef SHARED
#undef DYNAMIC_SHARED

#define SHARED static __attribute__((section("shared_arrays")))
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emulator::start_of_dynamic_shared())
template <int BYTES>
INTRINSIC void copy_later(void *to, const void *from, bool is_wanted) {
    emulator::begin_copy(to, from, BYTES, is_wanted);
}
INTRINSIC void end_copies() { emulator::end_batch(); }
template <int N>
INTRINSIC void wait_copies() { emulator::wait_for_batches(N); }

// Tensor cores: each thread gets what it needs from the others of its warp. Of float32 eleven bits count.
struct Pair {
    float x, y;
};
INTRINSIC float eleven_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof x);
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}
INTRINSIC void tensor_multiply(float (&d)[4], const float (&a)[4], const float (&b)[2], const float (&c)[4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double sums[4] = {c[0], c[1], c[2], c[3]};
    for (int k = 0; k < 8; k++) {
        const Pair left = shuffle(Pair{a[0], a[1]}, 4 * g + k % 4), right = shuffle(Pair{a[2], a[3]}, 4 * g + k % 4);
        const Pair one = shuffle(Pair{b[0], b[1]}, 4 * (2 * t) + k % 4), other = shuffle(Pair{b[0], b[1]}, 4 * (2 * t + 1) + k % 4);
        const Pair of_a = k < 4 ? left : right;
        const double above = eleven_bits(of_a.x), below = eleven_bits(of_a.y);
        const double first = eleven_bits(k < 4 ? one.x : one.y), second = eleven_bits(k < 4 ? other.x : other.y);
        sums[0] += above * first;
        sums[1] += above * second;
        sums[2] += below * first;
        sums[3] += below * second;
    }
    for (int i = 0; i < 4; i++) d[i] = (float)sums[i];
}
INTRINSIC void tensor_multiply(double (&c)[2], double a, double b) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int k = 0; k < 4; k++) {
        const double own = shuffle(a, 4 * g + k), one = shuffle(b, 4 * (2 * t) + k), other = shuffle(b, 4 * (2 * t + 1) + k);
        c[0] += own * one;
        c[1] += own * other;
    }
}

// A kernel as a function that runs its whole grid. Arguments are on the stack of the host, where nothing is watched.
template <auto KERNEL>
struct Grid;
template <class... Args, void (*KERNEL)(Args...)>
struct Grid<KERNEL> {
    UNWATCHED static void run(Args... args) {
        auto thread = [&]() UNWATCHED {
            void (*volatile kernel)(Args...) = KERNEL;  // else it would be inlined here, and not be watched, either
            kernel(args...);
        };
        emulator::run_grid([](void *given) UNWATCHED { (*static_cast<decltype(thread) *>(given))(); }, &thread);
    }
};
