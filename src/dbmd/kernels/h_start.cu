// Where the H-step of many components starts, and what it needs to eliminate the components outside of a face: N b for each
// row b of Bt, where N is the inverse of Q + 1 1'.
//
// A product of matrices in float64: a thread has 8 samples and 4 components, a block ROWS samples and COLUMNS components,
// and DEPTH terms at a time. Each number is the sum of its terms in order, so that it does not depend on how many samples
// there are, nor on these constants.

#define TALL (ROWS / 8)
#define TILES (TALL * (COLUMNS / 4))  // 8 x 4 numbers each, as many as threads

struct alignas(16) Two {
    double x, y;
};

// The length of rows in shared memory: even, so that two numbers can be loaded at once; half of it is odd, so that rows are
// in different banks.
#define WIDTH(depth) (((depth) + 1) / 4 * 4 + 2)

INLINE Two two(const double *from) { return *reinterpret_cast<const Two *>(from); }

// An element of a matrix of so many columns, of those that a thread has: without a division for each.
struct Element {
    int i, k, n_columns, rows, columns;
    INLINE Element(int n_columns)
        : i(threadIdx.x / n_columns), k(threadIdx.x % n_columns), n_columns(n_columns), rows(THREADS / n_columns),
          columns(THREADS % n_columns) {}
    INLINE void next() {
        i += rows;
        k += columns;
        if (k >= n_columns) i++, k -= n_columns;
    }
};

#define AT_A_TIME 8  // that a thread loads before it waits

// As many blocks at a time as have 146 registers a thread, on most devices.
// Shared memory: ROWS rows of b, or of the result, and DEPTH rows of N, or as many as there are.
extern "C" __global__ void __launch_bounds__(THREADS, 448 / THREADS)
multiply(const REAL *__restrict__ Bt, long long n, int r, double unit, const double *__restrict__ N,
         double *__restrict__ out) {
    DYNAMIC_SHARED(double, some_b);
    const int most = r < DEPTH ? r : DEPTH, wide_b = WIDTH(most > COLUMNS ? most : COLUMNS);
    double *some_N = some_b + ROWS * wide_b;
    const int n_parts = (r + COLUMNS - 1) / COLUMNS;
    const long long n_blocks = (n + ROWS - 1) / ROWS * n_parts;
    bool is_loaded = false;
    for (long long block = blockIdx.x; block < n_blocks; block += gridDim.x) {
        const long long row = block / n_parts * ROWS;
        const int column = (int)(block % n_parts) * COLUMNS, n_columns = r - column < COLUMNS ? r - column : COLUMNS;
        const int count = n - row < ROWS ? (int)(n - row) : ROWS;
        double total[TILES / THREADS][8][4];
        for (int own = 0; own < TILES / THREADS; own++)
#pragma unroll
            for (int e = 0; e < 32; e++) total[own][e / 4][e % 4] = 0.0;
        for (int first = 0; first < r; first += DEPTH) {
            const int depth = r - first < DEPTH ? r - first : DEPTH, even = (depth + 1) / 2 * 2;
            for (Element from(even), to(even); to.i < ROWS;) {
                REAL some[AT_A_TIME];
#pragma unroll
                for (int e = 0; e < AT_A_TIME; e++, from.next())
                    some[e] = from.i < count && from.k < depth ? Bt[(row + from.i) * r + first + from.k] : (REAL)0.0;
#pragma unroll
                for (int e = 0; e < AT_A_TIME; e++, to.next())
                    if (to.i < ROWS) some_b[to.i * wide_b + to.k] = some[e] * unit;
            }
            if (!is_loaded) {
                for (Element e(COLUMNS); e.i < even; e.next())
                    some_N[e.i * COLUMNS + e.k] =
                        e.i < depth && e.k < n_columns ? N[(first + e.i) * r + column + e.k] : 0.0;
                is_loaded = r <= DEPTH && n_parts == 1;
            }
            __syncthreads();
            for (int own = 0; own < TILES / THREADS; own++) {
                const int tile = own * THREADS + threadIdx.x;
                const double *at_b = some_b + tile / 2 % TALL * wide_b;
                const double *at_N = some_N + (tile / (2 * TALL) * 2 + tile % 2) * 4;
#pragma unroll 2
                for (int l = 0; l < depth; l += 2) {
                    Two b[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) b[i] = two(at_b + i * TALL * wide_b + l);
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const Two N0 = two(at_N + (l + half) * COLUMNS), N1 = two(at_N + (l + half) * COLUMNS + 2);
                        const double N_l[4] = {N0.x, N0.y, N1.x, N1.y};
#pragma unroll
                        for (int e = 0; e < 32; e++)
                            total[own][e / 4][e % 4] += (half ? b[e / 4].y : b[e / 4].x) * N_l[e % 4];
                    }
                }
            }
            __syncthreads();
        }
        // By way of shared memory, so that neighbours write what is side by side.
        for (int own = 0; own < TILES / THREADS; own++) {
            const int tile = own * THREADS + threadIdx.x, k = (tile / (2 * TALL) * 2 + tile % 2) * 4;
            double *to = some_b + tile / 2 % TALL * wide_b + k;
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int e = 0; e < 4; e += 2)
                    *reinterpret_cast<Two *>(to + i * TALL * wide_b + e) = {total[own][i][e], total[own][i][e + 1]};
        }
        __syncthreads();
        for (Element e(n_columns); e.i < count; e.next())
            out[(row + e.i) * r + column + e.k] = some_b[e.i * wide_b + e.k];
        __syncthreads();
    }
}
