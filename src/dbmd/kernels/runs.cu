// Sums over samples in an order that does not depend on the number of blocks: UNIT samples, one after the other, are added
// up by one block, PER_RUN such sums make a run, and runs are added up in order.

// Add the rows of `sums` to `total`: PER_RUN rows make a run, and runs are added in order.
extern "C" __global__ void __launch_bounds__(THREADS)
add_up(const double *__restrict__ sums, long long n_rows, int n_entries, double *total) {
    for (int e = blockIdx.x * THREADS + threadIdx.x; e < n_entries; e += gridDim.x * THREADS) {
        double all = total[e];
        for (long long first = 0; first < n_rows; first += PER_RUN) {
            double run = 0.0;
#pragma unroll
            for (int i = 0; i < PER_RUN; i++)
                if (first + i < n_rows) run += sums[(first + i) * n_entries + e];
            all += run;
        }
        total[e] = all;
    }
}

// Write the sums of ln Ht over UNIT samples each to the rows of `sums`, shape (units, r).
extern "C" __global__ void __launch_bounds__(THREADS)
sum_logs(const REAL *__restrict__ Ht, long long n, int r, double *sums) {
    const long long n_units = (n + UNIT - 1) / UNIT;
    for (long long e = (long long)blockIdx.x * THREADS + threadIdx.x; e < n_units * r;
         e += (long long)gridDim.x * THREADS) {
        const long long unit = e / r;
        const int k = (int)(e % r);
        const long long end = n < (unit + 1) * UNIT ? n : (unit + 1) * UNIT;
        double total = 0.0, product = 1.0;
        for (long long i = unit * UNIT; i < end; i++) {
            // A logarithm costs more than ten products, and the product of eight entries above 1e-38 is in range.
            product *= Ht[i * r + k];
            if (i % 8 == 7 || i == end - 1) {
                total += log(product);
                product = 1.0;
            }
        }
        sums[e] = total;
    }
}
