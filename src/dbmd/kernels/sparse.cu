// The products of sparse samples with W and with memberships.
//
// LANES threads share a row: PARTS of them have NARROW numbers each of a row of a dense array (of W, or of H), and as
// many sets of them as there are have an entry of the sparse row each at a time. The sums of the sets are added in
// order.
//
// Constants: REAL, INDEX, COLS (columns, a multiple of four), SEGMENT, LANES, THREADS.

#define NARROW (16 / (int)sizeof(REAL))
#define PARTS (COLS / NARROW)
#define BESIDE (PARTS < LANES ? PARTS : LANES)  // lanes for a row of the dense array
#define SETS (LANES / BESIDE)
#define SHORT 128  // entries of a short sum

struct alignas(16) Narrow {
    REAL v[NARROW];
};

// Adds what the other sets have to the numbers of the first set.
__device__ __forceinline__ void add_sets(Narrow &sum, int lane) {
#if LANES > 1
    Narrow own = sum;
#pragma unroll
    for (int set = 1; set < SETS; ++set) {
#pragma unroll
        for (int q = 0; q < NARROW; ++q) {
            sum.v[q] += __shfl_sync(0xffffffffu, own.v[q], set * BESIDE + lane % BESIDE, LANES);
        }
    }
#endif
}

// The sum of data[i] dense[indices[i]] over the entries [begin, end): short sums, which are added up. Long ones would lose
// digits.
template <class Integer>
__device__ __forceinline__ Narrow gather(
    const REAL *__restrict__ data, const Integer *__restrict__ indices, long long begin, long long end,
    const REAL *__restrict__ dense, int part, int set
) {
    Narrow total = {};
    for (long long first = begin + set; first < end; first += SHORT * SETS) {
        const long long stop = end - first < SHORT * SETS ? end : first + SHORT * SETS;
        Narrow sum = {};
#pragma unroll 4
        for (long long i = first; i < stop; i += SETS) {
            const REAL x = data[i];
            const Narrow row = *reinterpret_cast<const Narrow *>(dense + (long long)indices[i] * COLS + part * NARROW);
#pragma unroll
            for (int q = 0; q < NARROW; ++q) sum.v[q] += x * row.v[q];
        }
#pragma unroll
        for (int q = 0; q < NARROW; ++q) total.v[q] += sum.v[q];
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS) sparse_products(
    const REAL *__restrict__ data, const INDEX *__restrict__ indices, const INDEX *__restrict__ starts,
    long long n,
    const REAL *__restrict__ W,  // shape (m, COLS), zeros in columns that are not needed
    int r, int first, int count,  // columns of B
    const REAL *__restrict__ offset,  // shape (r,), or none
    REAL *__restrict__ B  // shape (n, r)
) {
    const int lane = threadIdx.x % LANES, set = lane / BESIDE;
    const long long step = (long long)gridDim.x * (THREADS / LANES);
    for (long long row = (long long)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES; row < n; row += step) {
        for (int part = lane % BESIDE; part < PARTS; part += BESIDE) {
            // Lanes beyond the last set have no entries.
            const long long end = set < SETS ? starts[row + 1] : starts[row];
            Narrow sum = gather(data, indices, starts[row], end, W, part, set);
            add_sets(sum, lane);
            if (set == 0) {
#pragma unroll
                for (int q = 0; q < NARROW; ++q) {
                    const int k = part * NARROW + q;
                    if (k < count) B[row * r + first + k] = sum.v[q] - (offset ? offset[first + k] : 0);
                }
            }
        }
    }
}

// Memberships times weights, with `width` columns from `first` on; column r, if it is among them, is the weight itself.
extern "C" __global__ void __launch_bounds__(THREADS) weighted(
    const REAL *__restrict__ H, const double *__restrict__ weights, long long n, int r, int first, int columns,
    REAL *__restrict__ padded  // shape (n, COLS)
) {
    const long long entries = n * COLS, step = (long long)gridDim.x * THREADS;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < entries; i += step) {
        const long long row = i / COLS;
        const int k = first + i % COLS;
        REAL value = 0;
        if (k < columns) {
            value = k < r ? H[row * r + k] : REAL(1);
            if (weights) value = value * weights[row];
        }
        padded[i] = value;
    }
}

// The entries of a column in SEGMENT samples are beside each other: `starts` has their bounds, for each segment those
// of each of m columns, and `rows` the numbers of the samples in the segment.
extern "C" __global__ void __launch_bounds__(THREADS) sparse_sums(
    const REAL *__restrict__ data, const unsigned short *__restrict__ rows, const long long *__restrict__ starts,
    int segments, int m,
    const REAL *__restrict__ H,  // shape (samples of the segments, COLS), weighted
    int outputs, int first, int count,  // columns of parts, and which of them are computed here
    int squares,  // column of H with the weight, or -1: squares are summed up, too, as the last column
    REAL *__restrict__ parts  // shape (segments, outputs, m)
) {
    const int lane = threadIdx.x % LANES, set = lane / BESIDE;
    const long long step = (long long)gridDim.x * (THREADS / LANES), units = (long long)segments * m;
    for (long long unit = (long long)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES; unit < units; unit += step) {
        const int segment = unit / m, feature = unit % m;
        const REAL *own = H + (long long)segment * SEGMENT * COLS;
        const long long begin = starts[unit], end = starts[unit + 1];
        REAL *part_of_segment = parts + (long long)segment * outputs * m + feature;
        for (int part = lane % BESIDE; part < PARTS; part += BESIDE) {
            Narrow sum = gather(data, rows, begin, set < SETS ? end : begin, own, part, set);
            add_sets(sum, lane);
            if (set == 0) {
#pragma unroll
                for (int q = 0; q < NARROW; ++q) {
                    const int k = part * NARROW + q;
                    if (k < count) part_of_segment[(long long)(first + k) * m] = sum.v[q];
                }
            }
        }
        if (squares >= 0) {
            REAL square = 0;
            for (long long i = begin + lane; i < end; i += LANES) {
                square += data[i] * data[i] * own[(int)rows[i] * COLS + squares];
            }
#if LANES > 1
            for (int apart = LANES / 2; apart > 0; apart /= 2) {
                square += __shfl_xor_sync(0xffffffffu, square, apart, LANES);
            }
#endif
            if (lane == 0) part_of_segment[(long long)(outputs - 1) * m] = square;
        }
    }
}

// For each entry: the number of its segment and column, and its row in the segment.
extern "C" __global__ void __launch_bounds__(THREADS) keys(
    const INDEX *__restrict__ indices, const INDEX *__restrict__ starts, long long n, int m,
    KEY *__restrict__ keys, unsigned short *__restrict__ rows
) {
    const long long step = (long long)gridDim.x * (THREADS / LANES);
    for (long long row = (long long)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES; row < n; row += step) {
        for (long long i = starts[row] + threadIdx.x % LANES; i < starts[row + 1]; i += LANES) {
            keys[i] = (KEY)(row / SEGMENT) * m + indices[i];
            rows[i] = row % SEGMENT;
        }
    }
}
