// Lower triangles in shared memory, and linear systems with them, for the LANES threads that share a sample. The groups of
// a warp have systems of different sizes m, and take as many steps as the largest, m_all, needs.

#define EVEN(n) (((n) + 1) / 2 * 2)
// Where row i of a triangle begins: rows have even lengths, so that two numbers can be loaded at once.
#define ROW(i) (2 * (((i) + 1) / 2) * ((i) / 2 + 1))

struct alignas(16) Two {
    double x, y;
};

INLINE Two two(const double *from) { return *reinterpret_cast<const Two *>(from); }

struct Pivots {
    double least;    // the smallest
    double log_det;  // sum of their logarithms, if asked for
};

// Write the Cholesky factor L of a symmetric matrix of m rows to the triangle A, with one over its diagonal in the place
// of that. The n_sides rows below it, p' in rows of even lengths, become (L^-1 p)'.
//   matrix.place(i)   where row or column i is
//   matrix.at(p, q)   the entry at such places
//   matrix.least(i)   what pivot i is not below, up to rounding
template <int n_sides, bool with_log_det = false, class Matrix>
INLINE Pivots factor(const Matrix &matrix, int m, int m_all, double *A) {
    const int lane = lane_of_group(), below = ROW(m), wide = EVEN(m);
    Pivots pivots = {1e300, 0.0};
    double product = 1.0;
    for (int j = 0; j < m_all; j += 2) {  // two columns at a time
        const bool is_pair = j + 1 < m;
        const int next = is_pair ? j + 1 : j, end = j < m ? m + n_sides : 0;
        const double *row_j = A + ROW(j), *row_next = A + ROW(next);
        const int place_j = j < m ? matrix.place(j) : 0, place_next = j < m ? matrix.place(next) : 0;
        const int first_own = j + ((lane - j) & (LANES - 1));
        for (int i = first_own; i < end; i += LANES) {
            double *row = A + (n_sides == 0 || i < m ? ROW(i) : below + (i - m) * wide);
            double x, y, x_odd = 0.0, y_odd = 0.0;
            if (n_sides == 0 || i < m) {
                const int place = matrix.place(i);
                x = matrix.at(place_j, place);  // in one row for all threads: fewer lines of the cache
                y = matrix.at(place_next, place);
            } else {
                x = row[j];
                y = row[next];
            }
#pragma unroll 2
            for (int k = 0; k < j; k += 2) {
                const Two own = two(row + k), one = two(row_j + k), other = two(row_next + k);
                x -= own.x * one.x;
                y -= own.x * other.x;
                x_odd -= own.y * one.y;
                y_odd -= own.y * other.y;
            }
            row[j] = x + x_odd;
            if (i > j && is_pair) row[next] = y + y_odd;
        }
        __syncwarp();
        double inverse = 0.0, across = 0.0, next_inverse = 0.0;
        if (j < m) {
            double pivot = fmax(row_j[j], matrix.least(j));
            inverse = inverse_root(pivot);
            pivots.least = fmin(pivots.least, pivot);
            if (with_log_det) product *= pivot;
            if (is_pair) {
                across = row_next[j] * inverse;
                pivot = fmax(row_next[next] - across * across, matrix.least(next));
                next_inverse = inverse_root(pivot);
                pivots.least = fmin(pivots.least, pivot);
                if (with_log_det) product *= pivot;
            }
            if (with_log_det && (product > 1e150 || product < 1e-150)) {
                pivots.log_det += log(product);
                product = 1.0;
            }
        }
        __syncwarp();
        for (int i = first_own; i < end; i += LANES) {
            double *row = A + (n_sides == 0 || i < m ? ROW(i) : below + (i - m) * wide);
            if (i == j) {
                row[j] = inverse;
            } else {
                const double x = row[j] * inverse;
                row[j] = x;
                if (is_pair) row[next] = i == next ? next_inverse : (row[next] - x * across) * next_inverse;
            }
        }
        __syncwarp();
    }
    if (with_log_det) pivots.log_det += log(product);
    return pivots;
}

// Solve L'x = v: v is used up, x must not be v.
INLINE void solve_transposed(const double *A, int m, int m_all, double *v, double *x) {
    const int lane = lane_of_group();
    for (int done = 0; done < m_all; done += 2) {
        const int i = m - 1 - done;
        if (i >= 0) {
            const double *row = A + ROW(i), *row_before = A + ROW(i > 0 ? i - 1 : 0);
            const double x_i = v[i] * row[i];
            const double x_before = i > 0 ? (v[i - 1] - row[i - 1] * x_i) * row_before[i - 1] : 0.0;
            for (int k = lane; k < i - 1; k += LANES) v[k] -= row[k] * x_i + row_before[k] * x_before;
            if (lane == 0) {
                x[i] = x_i;
                if (i > 0) x[i - 1] = x_before;
            }
        }
        __syncwarp();
    }
}

// Solve L x = v for systems that are all of size m: v is used up, x must not be v.
INLINE void solve_lower(const double *A, int m, double *v, double *x) {
    const int lane = lane_of_group();
    for (int j = 0; j < m; j += 2) {
        const bool is_pair = j + 1 < m;
        const int next = is_pair ? j + 1 : j;
        const double x_j = v[j] * A[ROW(j) + j];
        const double x_next = is_pair ? (v[next] - A[ROW(next) + j] * x_j) * A[ROW(next) + next] : 0.0;
        for (int i = j + 2 + lane; i < m; i += LANES) {
            const Two own = two(A + ROW(i) + j);
            v[i] -= own.x * x_j + own.y * x_next;
        }
        if (lane == 0) {
            x[j] = x_j;
            if (is_pair) x[next] = x_next;
        }
        __syncwarp();
    }
}

// Replace L by its inverse, in place.
INLINE void invert(double *A, int m, int m_all) {
    const int lane = lane_of_group();
    for (int i = 1; i < m_all; i++) {
        double *row = A + ROW(i);
        const double inverse = i < m ? row[i] : 0.0;
        for (int from = 0; from < i; from += LANES) {  // what is overwritten is not needed further on
            const int j = from + lane;
            const bool is_own = i < m && j < i;
            double total = 0.0;
            if (is_own) {
                const double *below = A + ROW(j) + j;  // column j of what is inverted already
                for (int k = j; k < i; k++) {
                    total -= row[k] * *below;
                    below += EVEN(k + 1);
                }
            }
            __syncwarp();
            if (is_own) row[j] = total * inverse;
        }
        __syncwarp();
    }
}

// Replace X = L^-1 by X'X, the inverse of the matrix, in place: its lower triangle.
INLINE void square(double *A, int m, int m_all) {
    const int lane = lane_of_group();
    for (int i = 0; i < m_all; i++) {
        double *row = A + ROW(i);
        const double own = i < m ? row[i] : 0.0;
        __syncwarp();
        if (i < m)
            for (int j = lane; j <= i; j += LANES) {
                double total = own * row[j];
                const double *below_i = row + EVEN(i + 1) + i, *below_j = row + EVEN(i + 1) + j;
                for (int k = i + 1; k < m; k++) {
                    total += *below_i * *below_j;
                    below_i += EVEN(k + 1);
                    below_j += EVEN(k + 1);
                }
                row[j] = total;
            }
        __syncwarp();
    }
}
