// B = X W - offset for dense samples, each of which is read once.
//
// LANES threads share ROWS samples: ALONG of them stride along the features, and each of SPLIT sets of them has COLS
// components. A thread copies what it needs of the samples, and no other thread needs, to a place of its own in shared
// memory, DEPTH - 1 strides ahead, also across samples: so the memory is never idle. W is in shared memory, too. At the
// end the lanes exchange halves of their sums until each has its share of complete ones. The sum of a sample is taken
// in the same order whatever the grid and the number of samples.
//
// Constants: REAL, VEC (numbers of a load), ROWS, COLS, SPLIT, DEPTH, LANES, THREADS, BLOCKS (per multiprocessor, at
// least).

#define ALONG (LANES > SPLIT ? LANES / SPLIT : 1)
#define STRIDE (ALONG * VEC)  // features
#define PITCH ((COLS * SPLIT | 1) * VEC)  // odd in units of a load: lanes side by side use different banks

struct alignas(VEC * sizeof(REAL)) Pack {
    REAL v[VEC];
};

// Pairs of lanes exchange every other of COUNT sums: in the end a lane has the complete ones of number i ALONG + along.
template <int COUNT, int APART>
__device__ __forceinline__ void exchange(REAL *sums, int along) {
#if LANES > 1
    if constexpr (APART < ALONG) {
        const bool is_odd = along & APART;
#pragma unroll
        for (int i = 0; i < COUNT / 2; ++i) {
            const REAL mine = is_odd ? sums[2 * i + 1] : sums[2 * i];
            const REAL other = is_odd ? sums[2 * i] : sums[2 * i + 1];
            sums[i] = mine + __shfl_xor_sync(0xffffffffu, other, APART);
        }
        exchange<COUNT / 2, 2 * APART>(sums, along);
    }
#endif
}

// Puts `tile` features of `count` columns of W, shape (m, r), from feature `start` and column `first` on into `basis`:
// for each VEC features a row of PITCH numbers, VEC of each column. Where there are no more, there are zeros.
__device__ void load_basis(
    const REAL *W, int r, int first, int count, int start, int left, int tile, REAL *basis
) {
    const int width = left < tile ? left : tile;
    for (int i = threadIdx.x; i < width * count; i += THREADS) {
        const int f = i / count, k = i % count;
        basis[f / VEC * PITCH + k * VEC + f % VEC] = W[(long long)(start + f) * r + first + k];
    }
    for (int i = threadIdx.x; i < width * (COLS * SPLIT - count); i += THREADS) {
        const int f = i % width, k = count + i / width;
        basis[f / VEC * PITCH + k * VEC + f % VEC] = 0;
    }
    const int filled = (width + STRIDE - 1) / STRIDE * STRIDE;
    for (int i = threadIdx.x; i < (filled - width) * COLS * SPLIT; i += THREADS) {
        const int f = width + i / (COLS * SPLIT), k = i % (COLS * SPLIT);
        basis[f / VEC * PITCH + k * VEC + f % VEC] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) dense_products(
    const REAL *__restrict__ X,  // shape (n, m)
    long long n, int m,
    const REAL *__restrict__ W,  // shape (m, r)
    int r, int first, int count,  // columns of W, at most COLS * SPLIT
    const REAL *__restrict__ offset,  // shape (r,), or none
    REAL *__restrict__ B,  // shape (n, r)
    int tile  // features of W at a time in shared memory, a multiple of STRIDE
) {
    DYNAMIC_SHARED(Pack, arriving);  // shape (DEPTH, ROWS, THREADS), then the basis, shape (tile / VEC, PITCH)
    REAL *basis = reinterpret_cast<REAL *>(arriving + DEPTH * ROWS * THREADS);
    arriving += threadIdx.x;
    const int lane = threadIdx.x % LANES, set = threadIdx.x / LANES, along = lane % ALONG;
    const int end = (m + STRIDE - 1) / STRIDE * STRIDE;
    const long long batch = THREADS / LANES * ROWS, step = batch * gridDim.x;
    bool is_loaded = false;
    for (int split = lane / ALONG; split < SPLIT; split += LANES / ALONG) {
        // What comes next: features from `from` on of ROWS samples, `apart` numbers from the first of them.
        long long coming = batch * blockIdx.x;
        int from = along * VEC, apart[ROWS], slot = 0;
        const REAL *x;
        auto turn = [&]() {
            const long long row = coming + set * ROWS, last = n - 1;
            x = X + (row < last ? row : last) * m;
#pragma unroll
            for (int q = 0; q < ROWS; ++q) apart[q] = row + q <= last ? q * m : row <= last ? int(last - row) * m : 0;
        };
        auto fetch = [&](int to) {
            const bool is_wanted = from < m && coming < n;
#pragma unroll
            for (int q = 0; q < ROWS; ++q) {
                const REAL *source = is_wanted ? x + apart[q] + from : X;
                copy_later<sizeof(Pack)>(arriving + (to * ROWS + q) * THREADS, source, is_wanted);
            }
            end_copies();
            from += STRIDE;
            if (from >= end) {  // the next samples
                from = along * VEC;
                coming += step;
                turn();
            }
        };
        turn();
        for (int i = 0; i < DEPTH - 1; ++i) fetch(i);

        for (long long top = batch * blockIdx.x; top < n; top += step) {
            const long long row0 = top + set * ROWS;
            REAL sums[ROWS * COLS];
#pragma unroll
            for (int i = 0; i < ROWS * COLS; ++i) sums[i] = 0;
            for (int start = 0; start < m; start += tile) {
                if (tile < m || !is_loaded) {
                    __syncthreads();
                    load_basis(W, r, first, count, start, m - start, tile, basis);
                    __syncthreads();
                    is_loaded = true;
                }
                const int width = end - start < tile ? end - start : tile;
                const REAL *w = basis + along * PITCH + split * COLS * VEC;
#pragma unroll 1
                for (int f = 0; f < width; f += STRIDE) {
                    wait_copies<DEPTH - 2>();
                    Pack now[ROWS];
#pragma unroll
                    for (int q = 0; q < ROWS; ++q) now[q] = arriving[(slot * ROWS + q) * THREADS];
                    fetch(slot == 0 ? DEPTH - 1 : slot - 1);
                    slot = slot == DEPTH - 1 ? 0 : slot + 1;
#pragma unroll
                    for (int k = 0; k < COLS; ++k) {
                        const Pack b = *reinterpret_cast<const Pack *>(w + k * VEC);
#pragma unroll
                        for (int q = 0; q < ROWS; ++q) {
#pragma unroll
                            for (int v = 0; v < VEC; ++v) sums[q * COLS + k] += now[q].v[v] * b.v[v];
                        }
                    }
                    w += ALONG * PITCH;
                }
            }
            exchange<ROWS * COLS, 1>(sums, along);
#pragma unroll
            for (int i = 0; i < ROWS * COLS / ALONG; ++i) {
                const int number = i * ALONG + along, k = split * COLS + number % COLS;
                const long long row = row0 + number / COLS;
                if (row < n && k < count) B[row * r + first + k] = sums[i] - (offset ? offset[first + k] : 0);
            }
        }
        wait_copies<0>();
    }
}
