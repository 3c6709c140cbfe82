/* The patch of h x w at (top, left) with `count` channels from `first` on; zeros beyond the border. */
static inline void NAME_take(const float *x, int rows, int columns, int channels, int first, int count,
                             int top, int left, int h, int w, float *patch) {
    int i, j, k;
    for (i = top; i < top + h; i++) {
        for (j = left; j < left + w; j++) {
            const int inside = i >= 0 && i < rows && j >= 0 && j < columns;
            for (k = 0; k < count; k++) {
                *patch++ = inside ? x[(i * columns + j) * channels + first + k] : 0.0f;
            }
        }
    }
}

static inline float NAME_squares(const float *v, int n) {
    float parts[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}; /* one sum each: they run abreast */
    int i, k;
    for (i = 0; i + 8 <= n; i += 8) {
        for (k = 0; k < 8; k++) {
            parts[k] += v[i + k] * v[i + k];
        }
    }
    for (; i < n; i++) {
        parts[0] += v[i] * v[i];
    }
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

static inline void NAME_divide(float *v, int n, float length) {
    const float factor = length > 0.0f ? 1.0f / length : 1.0f;
    int i;
    for (i = 0; i < n; i++) {
        v[i] *= factor;
    }
}

/* v / |v|, or v / floor where that is more; zeros stay zeros. */
static inline void NAME_unit(float *v, int n, float floor) {
    const float length = sqrtf(NAME_squares(v, n));
    NAME_divide(v, n, length > floor ? length : floor);
}

/* v less its mean, divided by its length or, where that is more, by floor times the length it came with. */
static inline void NAME_centred(float *v, int n, float floor) {
    const float lowest = floor * sqrtf(NAME_squares(v, n));
    float mean = 0.0f, length;
    int i;
    for (i = 0; i < n; i++) {
        mean += v[i];
    }
    mean /= (float)n;
    for (i = 0; i < n; i++) {
        v[i] -= mean;
    }
    length = sqrtf(NAME_squares(v, n));
    NAME_divide(v, n, length > lowest ? length : lowest);
}

/* out += weights' v, weights with one row of m values for each of the n values of v; rows in 8 bits may come with
   powers of two that they are to be divided by. */
static inline void NAME_add_product(const float *v, int n, const NAME_weight *weights, const signed char *powers,
                                    int m, float *out) {
    int i, j;
    for (i = 0; i < n; i++) {
        const NAME_weight *row = weights + i * m;
        const float value = powers ? v[i] / (float)(1ul << powers[i]) : v[i];
        if (value != 0.0f) {
            for (j = 0; j < m; j++) {
                out[j] += value * (float)row[j];
            }
        }
    }
}

/* v * scale + bias; without scale (float weights) v + bias. */
static inline void NAME_affine(float *v, int n, const float *scale, const float *bias) {
    int i;
    for (i = 0; i < n; i++) {
        v[i] = (scale ? v[i] * scale[i] : v[i]) + bias[i];
    }
}

static inline void NAME_clear(float *v, int n) {
    int i;
    for (i = 0; i < n; i++) {
        v[i] = 0.0f;
    }
}

static inline void NAME_soft_threshold(float *v, int n, float threshold) {
    int i;
    for (i = 0; i < n; i++) {
        v[i] = v[i] > threshold ? v[i] - threshold : v[i] < -threshold ? v[i] + threshold : 0.0f;
    }
}

/* The `keep` values of largest magnitude go to out, zeros elsewhere; v is used up. */
static inline void NAME_hard_threshold(float *v, int n, int keep, float *out) {
    int i, k;
    NAME_clear(out, n);
    for (k = 0; k < keep; k++) {
        int best = 0;
        for (i = 1; i < n; i++) {
            const float now = v[i] < 0.0f ? -v[i] : v[i], most = v[best] < 0.0f ? -v[best] : v[best];
            best = now > most ? i : best;
        }
        if (v[best] != 0.0f) {
            out[best] = v[best];
            v[best] = 0.0f;
        }
    }
}

static inline void NAME_relu(float *v, int n) {
    int i;
    for (i = 0; i < n; i++) {
        v[i] = v[i] > 0.0f ? v[i] : 0.0f;
    }
}

/* max(v - t, 0), then max(-v - t, 0). */
static inline void NAME_split(const float *v, int n, const float *thresholds, float *out) {
    int i;
    for (i = 0; i < n; i++) {
        out[i] = v[i] > thresholds[i] ? v[i] - thresholds[i] : 0.0f;
        out[n + i] = -v[i] > thresholds[i] ? -v[i] - thresholds[i] : 0.0f;
    }
}

/* Adds v/area to every cell of a grid that holds the place; spans are pairs of first and one past last. */
static inline void NAME_add_to_cells(const float *v, int n, int row, int column, const short *rows, int n_rows,
                                     const short *columns, int n_columns, float *cells) {
    int i, j, k;
    for (i = 0; i < n_rows; i++) {
        if (row < rows[2 * i] || row >= rows[2 * i + 1]) {
            continue;
        }
        for (j = 0; j < n_columns; j++) {
            if (column >= columns[2 * j] && column < columns[2 * j + 1]) {
                const int area = (rows[2 * i + 1] - rows[2 * i]) * (columns[2 * j + 1] - columns[2 * j]);
                const float share = 1.0f / (float)area;
                float *cell = cells + (i * n_columns + j) * n;
                for (k = 0; k < n; k++) {
                    cell[k] += share * v[k];
                }
            }
        }
    }
}

static inline float NAME_largest(const float *x, int places, int channels, int first, int count) {
    float most = 0.0f;
    int i, k;
    for (i = 0; i < places; i++) {
        for (k = first; k < first + count; k++) {
            const float size = x[i * channels + k] < 0.0f ? -x[i * channels + k] : x[i * channels + k];
            most = size > most ? size : most;
        }
    }
    return most;
}

static inline int NAME_best(const float *scores) {
    int best = 0, i;
    for (i = 1; i < NAME_CLASSES; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}
