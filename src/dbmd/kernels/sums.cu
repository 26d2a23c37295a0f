// X H' and H H' over samples, in sums that do not depend on how the samples are cut: those of GROUP samples are in the
// type of the samples (`dense_sums`), those of runs of groups in float64 (`add_groups`), and runs are added one after
// the other to the total (`add_runs`). Samples are read once.
//
// Constants: REAL, VEC (numbers of a load), PACKS (loads of a thread for a sample), COLS (components of a thread),
// UNROLL (samples that a thread copies at once), DEPTH (how many times), GROUP (a multiple of UNROLL), THREADS, BLOCKS
// (per multiprocessor, at least).

#include "_gram.cuh"

struct alignas(VEC * sizeof(REAL)) Pack {
    REAL v[VEC];
};

#define NARROW (16 / (int)sizeof(REAL))                // memberships of a load
#define PITCH ((COLS + NARROW - 1) / NARROW * NARROW)  // of those of a sample: loads do not straddle two
struct alignas(16) Narrow {
    REAL v[NARROW];
};

// Number of groups that a block of threads has at once: each has room for UNROLL samples or more.
__device__ __forceinline__ int groups_of_block(int wide) {
    const int most = GROUP / UNROLL;
    return THREADS / wide < most ? THREADS / wide : most;
}

// PACKS times VEC features of each of `wide` threads, and COLS components, of one group of samples. The other threads
// of a block have the groups that follow. With `norms`, a membership of one is added to each sample, at component r,
// for the sum of the samples; and at r + 1 there is the sum of their squares.
__device__ __forceinline__ void tile_sums(
    const REAL *__restrict__ X, long long n, int m,  // samples from those of the first group on
    const REAL *__restrict__ H, const double *__restrict__ weights, int r, int norms,  // their memberships and weights
    int tile, int wide, int split,  // which features, which components
    REAL *__restrict__ parts,  // shape (groups, r + 2 norms, m)
    REAL *h,  // shared, shape (groups of a block, at_once, PITCH)
    Pack *arriving  // shared, shape (DEPTH, UNROLL, PACKS, THREADS)
) {
    const int groups = groups_of_block(wide), at_once = GROUP / groups / UNROLL * UNROLL;
    const int group = threadIdx.x / wide, f = (tile * wide * PACKS + threadIdx.x % wide) * VEC;
    const int first = split * COLS, columns = r + norms;
    const long long left = n - group * GROUP;
    const int rows = group >= groups || f >= m || left <= 0 ? 0 : left < GROUP ? left : GROUP;
    const bool squares = norms && first <= r && r < first + COLS;
    const REAL *next = X + (long long)group * GROUP * m + f;
    arriving += threadIdx.x;
    auto fetch = [&](int i, int stage) {
        if (i < rows) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
                for (int p = 0; p < PACKS; ++p) {
                    const bool is_wanted = i + u < rows && (p == 0 || f + p * wide * VEC < m);
                    copy_later<sizeof(Pack)>(arriving + ((stage * UNROLL + u) * PACKS + p) * THREADS,
                                             is_wanted ? next + p * wide * VEC : X, is_wanted);
                }
                next += m;
            }
        }
        end_copies();
    };
    for (int i = 0; i < DEPTH - 1; ++i) fetch(i * UNROLL, i);

    Pack sums[PACKS][COLS] = {}, square[PACKS] = {};
    int stage = 0;
    for (int top = 0; top < GROUP && top < n; top += at_once) {
        __syncthreads();
        for (int i = threadIdx.x; i < groups * at_once * PITCH; i += THREADS) {
            const int k = first + i % PITCH, row = i / PITCH % at_once, which = i / PITCH / at_once;
            const long long number = (long long)which * GROUP + top + row;
            REAL value = 0;
            if (number < n && top + row < GROUP && i % PITCH < COLS && k < columns) {
                value = k < r ? H[number * r + k] : REAL(1);
                if (weights) value = value * weights[number];
            }
            h[i] = value;
        }
        __syncthreads();
        const REAL *own = h + group * at_once * PITCH;
        const int end = rows - top < at_once ? rows - top : at_once;
#pragma unroll 1
        for (int i = 0; i < end; i += UNROLL) {
            wait_copies<DEPTH - 2>();
            fetch(top + i + (DEPTH - 1) * UNROLL, stage == 0 ? DEPTH - 1 : stage - 1);
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                Pack x[PACKS];
#pragma unroll
                for (int p = 0; p < PACKS; ++p) x[p] = arriving[((stage * UNROLL + u) * PACKS + p) * THREADS];
#pragma unroll
                for (int k = 0; k < COLS; k += NARROW) {
                    const Narrow some = *reinterpret_cast<const Narrow *>(own + u * PITCH + k);
#pragma unroll
                    for (int i = 0; i < PACKS * NARROW * VEC; ++i) {
                        const int p = i / (NARROW * VEC), q = i / VEC % NARROW, v = i % VEC;
                        if (k + q < COLS) sums[p][k + q].v[v] += x[p].v[v] * some.v[q];
                    }
                }
                if (squares) {
                    const REAL weight = own[u * PITCH + r - first];
#pragma unroll
                    for (int i = 0; i < PACKS * VEC; ++i) {
                        const REAL value = x[i / VEC].v[i % VEC];
                        square[i / VEC].v[i % VEC] += value * value * weight;
                    }
                }
            }
            own += UNROLL * PITCH;
            stage = stage == DEPTH - 1 ? 0 : stage + 1;
        }
    }
    parts += (long long)group * (r + 2 * norms) * m + f;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
        if (!rows || f + p * wide * VEC >= m) break;
#pragma unroll
        for (int k = 0; k < COLS; ++k) {
            if (first + k < columns) *reinterpret_cast<Pack *>(parts + (long long)(first + k) * m) = sums[p][k];
        }
        if (squares) *reinterpret_cast<Pack *>(parts + (long long)(r + 1) * m) = square[p];
        parts += wide * VEC;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) dense_sums(
    const REAL *__restrict__ X,  // shape (n, m)
    const REAL *__restrict__ H,  // shape (n, r)
    const double *__restrict__ weights,  // shape (n,), or none
    long long n, int m, int r, int norms,
    int wide,  // threads along the features
    REAL *__restrict__ parts,  // shape (groups, r + 2 norms, m)
    double *__restrict__ grams,  // shape (groups, r + 1, r + 1)
    int room  // numbers in shared memory, before what arrives there
) {
    DYNAMIC_SHARED(REAL, shared);
    if (wide > THREADS) wide = THREADS;
    const int tiles = (m / VEC + wide * PACKS - 1) / (wide * PACKS), splits = (r + norms + COLS - 1) / COLS;
    const int at_once = groups_of_block(wide), batches = n_batches(r);
    const long long groups = (n + GROUP - 1) / GROUP, bundles = (groups + at_once - 1) / at_once;
    const long long n_tiles = bundles * tiles * splits, units = n_tiles + groups * batches;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        if (unit < n_tiles) {
            const long long group = unit / (tiles * splits) * at_once, first = group * GROUP;
            const int number = unit % (tiles * splits);
            const double *own = weights ? weights + first : 0;
            tile_sums(X + first * m, n - first, m, H + first * r, own, r, norms, number / splits, wide, number % splits,
                      parts + group * (r + 2 * norms) * m, shared, reinterpret_cast<Pack *>(shared + room));
        } else {
            const long long rest = unit - n_tiles;
            gram_of_group(H, weights, n, r, rest / batches, rest % batches, grams, shared, room);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) membership_sums(
    const REAL *__restrict__ H, const double *__restrict__ weights, long long n, int r, double *__restrict__ grams,
    int room
) {
    DYNAMIC_SHARED(REAL, shared);
    const int batches = n_batches(r);
    const long long units = (n + GROUP - 1) / GROUP * batches;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        gram_of_group(H, weights, n, r, unit / batches, unit % batches, grams, shared, room);
    }
}

// The sum of some of the rows of an array with `width` columns, in order.
template <class Number>
__device__ __forceinline__ double sum_of_rows(const Number *__restrict__ rows, int count, long long width) {
    double sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum += double(rows[i * width]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) add_groups(
    const REAL *__restrict__ parts, int n_parts, int parts_of_run, long long width,  // shape (n_parts, width)
    const double *__restrict__ grams, int n_grams, int grams_of_run, int gram_width,  // shape (n_grams, gram_width)
    double *__restrict__ runs, int n_runs  // shape (n_runs, width + gram_width)
) {
    const long long total_width = width + gram_width, entries = n_runs * total_width;
    const long long step = (long long)gridDim.x * THREADS;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < entries; i += step) {
        const int run = i / total_width;
        const long long entry = i % total_width;
        if (entry < width) {
            const int first = run * parts_of_run, left = n_parts - first;
            runs[i] = sum_of_rows(parts + first * width + entry, left < parts_of_run ? left : parts_of_run, width);
        } else {
            const int first = run * grams_of_run, left = n_grams - first;
            runs[i] = sum_of_rows(grams + (long long)first * gram_width + (entry - width),
                                  left < grams_of_run ? left : grams_of_run, gram_width);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) add_runs(
    const double *__restrict__ runs, int n_runs, long long width, double *__restrict__ total
) {
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < width; i += (long long)gridDim.x * THREADS) {
        double sum = total[i];
#pragma unroll 8
        for (int run = 0; run < n_runs; ++run) sum += runs[run * width + i];
        total[i] = sum;
    }
}
