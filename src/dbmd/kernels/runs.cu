// Sums over samples in an order that does not depend on the number of blocks: UNIT samples, one after the other, are added
// up by one block, PER_RUN such sums make a run, and runs are added up in order.

// Write the sums of PER_RUN rows of `sums` each, in order, to the rows of `runs`.
extern "C" __global__ void __launch_bounds__(THREADS)
add_rows(const double *__restrict__ sums, long long n_rows, int n_entries, double *__restrict__ runs) {
    const long long n_runs = (n_rows + PER_RUN - 1) / PER_RUN;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n_runs * n_entries;
         i += (long long)gridDim.x * THREADS) {
        const long long first = i / n_entries * PER_RUN, left = n_rows - first;
        const int count = left < PER_RUN ? (int)left : PER_RUN;
        const double *from = sums + first * n_entries + i % n_entries;
        double run = 0.0;
#pragma unroll 16
        for (int row = 0; row < count; row++) run += from[(long long)row * n_entries];
        runs[i] = run;
    }
}

// Add runs to `total`, one after the other.
extern "C" __global__ void __launch_bounds__(THREADS)
add_up(const double *__restrict__ runs, long long n_runs, int n_entries, double *total) {
    for (int e = blockIdx.x * THREADS + threadIdx.x; e < n_entries; e += gridDim.x * THREADS) {
        double all = total[e];
#pragma unroll 16
        for (long long run = 0; run < n_runs; run++) all += runs[run * n_entries + e];
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
