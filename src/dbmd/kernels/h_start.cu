// Where the H-step of many components starts, and what it needs to eliminate the components outside of a face: N b for each
// row b of Bt, where N is the inverse of Q + 1 1'.
//
// A product of matrices in float64, of 64 samples and 32 components by one block, 4 x 4 numbers by one thread. Each number
// is the sum of its terms in order, so that it does not depend on how many samples there are.

#define ROWS 64
#define COLUMNS 32
#define DEPTH 32
#define WIDE (ROWS + 2)  // even, so that two numbers can be loaded at once, and not a multiple of all banks
#define TILES (ROWS / 4 * (COLUMNS / 4))

struct alignas(16) Two {
    double x, y;
};

extern "C" __global__ void __launch_bounds__(THREADS)
multiply(const REAL *__restrict__ Bt, long long n, int r, double unit, const double *__restrict__ N,
         double *__restrict__ out) {
    SHARED Two pairs_of_b[DEPTH * WIDE / 2], pairs_of_N[DEPTH * COLUMNS / 2];
    double *some_b = &pairs_of_b[0].x, *some_N = &pairs_of_N[0].x;
    const int n_parts = (r + COLUMNS - 1) / COLUMNS;
    const long long n_blocks = (n + ROWS - 1) / ROWS * n_parts;
    for (long long block = blockIdx.x; block < n_blocks; block += gridDim.x) {
        const long long row = block / n_parts * ROWS;
        const int column = (int)(block % n_parts) * COLUMNS;
        double total[TILES / THREADS][4][4];
        for (int own = 0; own < TILES / THREADS; own++)
#pragma unroll
            for (int i = 0; i < 16; i++) total[own][i / 4][i % 4] = 0.0;
        for (int first = 0; first < r; first += DEPTH) {
            const int depth = r - first < DEPTH ? r - first : DEPTH;
            for (int e = threadIdx.x; e < ROWS * DEPTH; e += THREADS) {
                const int i = e / DEPTH, l = e % DEPTH;
                some_b[l * WIDE + i] = row + i < n && l < depth ? Bt[(row + i) * r + first + l] * unit : 0.0;
            }
            for (int e = threadIdx.x; e < COLUMNS * DEPTH; e += THREADS) {
                const int l = e / COLUMNS, k = e % COLUMNS;
                some_N[e] = column + k < r && l < depth ? N[(first + l) * r + column + k] : 0.0;
            }
            __syncthreads();
            for (int own = 0; own < TILES / THREADS; own++) {
                const int tile = own * THREADS + threadIdx.x, i = tile % (ROWS / 4) * 4, k = tile / (ROWS / 4) * 4;
#pragma unroll 4
                for (int l = 0; l < depth; l++) {
                    const Two *at_b = pairs_of_b + (l * WIDE + i) / 2, *at_N = pairs_of_N + (l * COLUMNS + k) / 2;
                    const Two b0 = at_b[0], b1 = at_b[1], N0 = at_N[0], N1 = at_N[1];
                    const double b[4] = {b0.x, b0.y, b1.x, b1.y}, N_l[4] = {N0.x, N0.y, N1.x, N1.y};
#pragma unroll
                    for (int e = 0; e < 16; e++) total[own][e / 4][e % 4] += b[e / 4] * N_l[e % 4];
                }
            }
            __syncthreads();
        }
        for (int own = 0; own < TILES / THREADS; own++) {
            const int tile = own * THREADS + threadIdx.x, i = tile % (ROWS / 4) * 4, k = tile / (ROWS / 4) * 4;
#pragma unroll
            for (int e = 0; e < 16; e++)
                if (row + i + e / 4 < n && column + k + e % 4 < r)
                    out[(row + i + e / 4) * r + column + k + e % 4] = total[own][e / 4][e % 4];
        }
    }
}
