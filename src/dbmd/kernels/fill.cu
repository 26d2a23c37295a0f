// Numbers for the gaps of samples, written where they are missing: as in _fill.py. A thread for each gap of a sample in
// turn; LANES threads share a sample. The entry of sample i and feature j is Xt[i * row + j * column].

#define FOR_GAPS                                                                                          \
    for (long long i = ((long long)blockIdx.x * THREADS + threadIdx.x) / LANES; i < n;                    \
         i += (long long)gridDim.x * (THREADS / LANES))                                                   \
        for (long long g = starts[i] + lane_of_group(); g < starts[i + 1]; g += LANES)

extern "C" __global__ void __launch_bounds__(THREADS)
put(REAL *Xt, long long row, long long column, const long long *__restrict__ starts,
    const long long *__restrict__ columns, long long n, const double *__restrict__ values) {
    FOR_GAPS Xt[i * row + columns[g] * column] = (REAL)values[columns[g]];
}

extern "C" __global__ void __launch_bounds__(THREADS)
put_products(REAL *Xt, long long row, long long column, const long long *__restrict__ starts,
             const long long *__restrict__ columns, long long n, const REAL *__restrict__ Ht, int r,
             const double *__restrict__ W, const double *__restrict__ centre) {
    FOR_GAPS {
        double total = centre[columns[g]];
        for (int k = 0; k < r; k++) total += Ht[i * r + k] * W[columns[g] * r + k];
        Xt[i * row + columns[g] * column] = (REAL)total;
    }
}
