// Lower triangles in shared memory, and linear systems with them, for the LANES threads that share a sample, four columns
// at a time. The groups of a warp have systems of different sizes m, and take as many steps as the largest, m_all, needs.
// Sizes are multiples of PANEL: what lacks is filled up with rows of the identity.
//
// Elimination is bound by loads, not by arithmetic. So a thread takes up to MOST rows and PANEL columns at a time, and uses
// each number that it loads several times; and it loads two numbers at once. A block of the triangle has two columns, and
// its rows beside each other: threads that load the same columns of successive rows never meet in a bank.

#define PANEL 4
#define MOST 4

struct alignas(16) Two {
    double x[2];
};

struct Triangle {
    Two *numbers;
    int height;  // rows, the last of which may be as long as the triangle is wide
    // Columns 2b and 2b + 1, where row i is at i.
    INLINE Two *block(int b) const { return numbers + b * height - b * (b + 1); }
    INLINE double &at(int i, int k) const { return block(k / 2)[i].x[k % 2]; }
};

// How many Two a triangle of m rows takes, with n_sides rows below it.
#define ROOM_OF_TRIANGLE(m, n_sides) ((m) / 2 * ((m) / 2 + (n_sides) + 1))

// PANEL columns of a row. The next block is `step` on.
INLINE void load_row(const Two *block, int step, int i, double (&x)[PANEL]) {
#pragma unroll
    for (int c = 0; c < PANEL; c += 2) {
        const Two numbers = block[i + c / 2 * step];
        x[c] = numbers.x[0];
        x[c + 1] = numbers.x[1];
    }
}

// With n_columns, only so many of them, or one more.
INLINE void store_row(Two *block, int step, int i, const double (&x)[PANEL], int n_columns = PANEL) {
#pragma unroll
    for (int c = 0; c < PANEL; c += 2)
        if (c < n_columns) block[i + c / 2 * step] = {x[c], x[c + 1]};
}

// The rows of a panel itself, up to the diagonal or one more.
INLINE void load_corner(const Two *block, int step, int j, double (&a)[PANEL][PANEL]) {
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
        for (int c = 0; c <= i; c += 2) {
            const Two numbers = block[j + i + c / 2 * step];
            a[i][c] = numbers.x[0];
            a[i][c + 1] = numbers.x[1];
        }
}

// The factor of these rows, and one over its diagonal.
struct Corner {
    double below[PANEL][PANEL], inverse[PANEL], least;

    // Rows and columns c and c + 1: what the second root waits for is a determinant, not the first root.
    INLINE void factor_two(int c, double a, double b, double d) {
        const double root = inverse_root(a), det = a * d - b * b, pivot = det * root * root;
        inverse[c] = root;
        inverse[c + 1] = a * root * inverse_root(det);
        below[c + 1][c] = b * root;
        least = least < a ? least : a;
        least = least < pivot ? least : pivot;
    }

    INLINE void factor(double (&a)[PANEL][PANEL]) {
        factor_two(0, a[0][0], a[1][0], a[1][1]);
#pragma unroll
        for (int i = 2; i < PANEL; i++) {
            below[i][0] = a[i][0] * inverse[0];
            below[i][1] = (a[i][1] - below[i][0] * below[1][0]) * inverse[1];
        }
#pragma unroll
        for (int i = 2; i < PANEL; i++)
#pragma unroll
            for (int c = 2; c <= i; c++) a[i][c] -= below[i][0] * below[c][0] + below[i][1] * below[c][1];
        factor_two(2, a[2][2], a[3][2], a[3][3]);
    }

    // Solve for a row below.
    INLINE void solve(double (&x)[PANEL]) const {
#pragma unroll
        for (int c = 0; c < PANEL; c++) {
#pragma unroll
            for (int e = 0; e < c; e++) x[c] -= x[e] * below[c][e];
            x[c] *= inverse[c];
        }
    }
};

// Subtract from some rows and columns j to j + PANEL - 1 what they have in common in the columns before.
template <int n_rows>
INLINE void subtract(const Triangle A, int j, const int (&own)[MOST], double (&x)[MOST][PANEL]) {
    const Two *block = A.numbers;
    int step = A.height - 2;
#pragma unroll 1
    for (int k = 0; k < j; k += 2) {
        Two one[PANEL], mine[n_rows];
#pragma unroll
        for (int c = 0; c < PANEL; c++) one[c] = block[j + c];
#pragma unroll
        for (int s = 0; s < n_rows; s++) mine[s] = block[own[s]];
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int s = 0; s < n_rows; s++)
#pragma unroll
                for (int c = 0; c < PANEL; c++) x[s][c] -= mine[s].x[e] * one[c].x[e];
        block += step;
        step -= 2;
    }
}

// Write the Cholesky factor L of a symmetric matrix of m rows to the triangle A, with one over its diagonal in the place
// of that. The n_sides rows p' below it become (L^-1 p)'. What is returned is the smallest pivot; it is not positive, or not a
// number, where the matrix is not positive definite.
//   matrix.place(i)   where row or column i is
//   matrix.at(p, q)   the entry at such places
template <int n_sides, class Matrix>
INLINE double factor(const Matrix &matrix, int m, int m_all, const Triangle A) {
    const int lane = lane_of_group(), end = m + n_sides;
    Two *block = A.numbers;
    Corner corner;
    corner.least = 1e300;
#pragma unroll 1
    for (int j = 0; j < m_all; j += PANEL) {
        const bool is_busy = j < m;
        const int step = A.height - j - 2;
#pragma unroll 1
        for (int first = j; first < m_all + n_sides; first += MOST * LANES) {
            const int n_rows = (m_all + n_sides - first + LANES - 1) / LANES;
            double x[MOST][PANEL];
            int own[MOST];
            if (is_busy) {
                int places[PANEL];
#pragma unroll
                for (int c = 0; c < PANEL; c++) places[c] = matrix.place(j + c);
#pragma unroll
                for (int s = 0; s < MOST; s++) {
                    const int i = first + lane + s * LANES;
                    own[s] = i < end ? i : j;  // beyond the end: any that nobody writes meanwhile
                    if (s > 0 && s >= n_rows) continue;
                    if (own[s] >= m) {
                        load_row(block, step, own[s], x[s]);
                    } else {
                        const int place = matrix.place(own[s]);
#pragma unroll
                        for (int c = 0; c < PANEL; c++) x[s][c] = matrix.at(places[c], place);
                    }
                }
                if (n_rows == 1) subtract<1>(A, j, own, x);
                if (n_rows == 2) subtract<2>(A, j, own, x);
                if (n_rows == 3) subtract<3>(A, j, own, x);
                if (n_rows >= MOST) subtract<MOST>(A, j, own, x);
            }
            if (first == j) {  // the rows of the panel itself: all threads need them
                if (is_busy)
#pragma unroll
                    for (int s = 0; s * LANES < PANEL; s++) {
                        const int i = lane + s * LANES;
                        if (i < PANEL) store_row(block, step, j + i, x[s], i + 1);
                    }
                __syncwarp();
                if (is_busy) {
                    double a[PANEL][PANEL];
                    load_corner(block, step, j, a);
                    corner.factor(a);
                }
                __syncwarp();
            }
            if (is_busy)
#pragma unroll
                for (int s = 0; s < MOST; s++) {
                    if (s > 0 && s >= n_rows) continue;
                    const int i = first + lane + s * LANES;
                    corner.solve(x[s]);
                    if (s * LANES < PANEL)
#pragma unroll
                        for (int c = 0; c < PANEL; c++)
                            if (i == j + c) x[s][c] = corner.inverse[c];
                    if (i < end) store_row(block, step, i, x[s], s * LANES < PANEL ? i - j + 1 : PANEL);
                }
        }
        __syncwarp();
        block += step + step - 2;
    }
    return corner.least;
}

// Solve L'x = v for v and x in rows of A: v is used up, x is another row.
INLINE void solve_transposed(const Triangle A, int m, int m_all, int row_of_v, int row_of_x) {
    const int lane = lane_of_group();
#pragma unroll 1
    for (int done = PANEL; done <= m_all; done += PANEL) {
        const int j = m - done, step = A.height - j - 2;
        if (j >= 0) {
            Two *block = A.block(j / 2);
            double a[PANEL][PANEL], x[PANEL];
            load_corner(block, step, j, a);
            load_row(block, step, row_of_v, x);
#pragma unroll
            for (int c = PANEL - 1; c >= 0; c--) {
                x[c] *= a[c][c];
#pragma unroll
                for (int e = 0; e < c; e++) x[e] -= a[c][e] * x[c];
            }
#pragma unroll 1
            for (int b = lane; 2 * b < j; b += LANES) {
                Two *one = A.block(b), v = one[row_of_v];
#pragma unroll
                for (int c = 0; c < PANEL; c++) {
                    const Two row = one[j + c];
                    v.x[0] -= row.x[0] * x[c];
                    v.x[1] -= row.x[1] * x[c];
                }
                one[row_of_v] = v;
            }
            if (lane == 0) store_row(block, step, row_of_x, x);
        }
        __syncwarp();
    }
}
