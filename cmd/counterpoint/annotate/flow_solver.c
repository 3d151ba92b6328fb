/*
 * See flow_solver.h. A primal-dual interior-point method. Each arc's flow y has a price z of being positive,
 * with y * z = barrier, which goes to 0; each node has a potential. A step solves
 *
 *     weight * (y - wanted) + potential(to) - potential(from) - z = 0
 *     what comes in - what goes out = 0, at each node
 *
 * by Newton's method. What remains when y and z are eliminated is the network's Laplace matrix, with a
 * conductance of each arc. It is symmetric and positive, and is factored by Cholesky's method within its
 * profile: from the first element of a row on that is not 0.
 */
#include "flow_solver.h"

#include <math.h>
#include <string.h>

enum { MOST_STEPS = 100 };
#define LAST_BARRIER 1e-11
/* A weight of arcs that want nothing, and a part of the diagonal: so that nothing is undetermined. */
#define LEAST_WEIGHT 1e-9
#define RIDGE 1e-12

struct matrix {
    size_t n;
    size_t *first; /* of each row: the first column that is stored */
    double **rows; /* rows[i][j - first[i]], up to the diagonal */
};

struct network {
    struct flow_arc *arcs;
    size_t n_arcs, n;
    size_t *number; /* of each node, in the matrix, from 1 on */
    struct matrix matrix;
    double *potential, *side; /* of each node */
    double barrier;
};

/* ---- The matrix ------------------------------------------------------------------------------ */

static double *element(const struct matrix *matrix, size_t i, size_t j)
{
    return i > j ? &matrix->rows[i][j - matrix->first[i]] : &matrix->rows[j][i - matrix->first[j]];
}

/* Puts the lower factor in the matrix's place. */
static void factor(struct matrix *matrix)
{
    for (size_t i = 0; i < matrix->n; i++) {
        const size_t first = matrix->first[i];
        double *row = matrix->rows[i];

        for (size_t j = first; j <= i; j++) {
            const size_t other_first = matrix->first[j];
            const double *other = matrix->rows[j];
            double sum = row[j - first];

            for (size_t k = first > other_first ? first : other_first; k < j; k++)
                sum -= row[k - first] * other[k - other_first];
            row[j - first] = i == j ? sqrt(fmax(sum, RIDGE)) : sum / other[j - other_first];
        }
    }
}

/* Puts the solution in the right side's place. */
static void solve(const struct matrix *matrix, double *side)
{
    for (size_t i = 0; i < matrix->n; i++) {
        for (size_t j = matrix->first[i]; j < i; j++)
            side[i] -= *element(matrix, i, j) * side[j];
        side[i] /= *element(matrix, i, i);
    }
    for (size_t i = matrix->n; i-- > 0;) {
        side[i] /= *element(matrix, i, i);
        for (size_t j = matrix->first[i]; j < i; j++)
            side[j] -= *element(matrix, i, j) * side[i];
    }
}

/* ---- The order of the nodes ------------------------------------------------------------------ */

/* The neighbours of node i are list[first[i]] to list[first[i + 1]]. */
struct neighbours {
    size_t *first, *list;
};

static void find_neighbours(struct neighbours *to, const struct network *network, struct arena *arena)
{
    size_t *filled = arena_array(arena, network->n + 1, sizeof *filled);

    to->first = arena_array(arena, network->n + 2, sizeof *to->first);
    to->list = arena_array(arena, 2 * network->n_arcs + 1, sizeof *to->list);
    for (size_t i = 0; i < network->n_arcs; i++) {
        to->first[network->arcs[i].from + 1]++;
        to->first[network->arcs[i].to + 1]++;
    }
    for (size_t i = 0; i <= network->n; i++)
        to->first[i + 1] += to->first[i];
    for (size_t i = 0; i < network->n_arcs; i++) {
        const size_t a = network->arcs[i].from, b = network->arcs[i].to;

        to->list[to->first[a] + filled[a]++] = b;
        to->list[to->first[b] + filled[b]++] = a;
    }
}

/* Numbers the nodes by their distance from the first one, so that neighbours have near numbers, and rows of
 * the matrix are short also if the code of a loop is in distant places (Cuthill and McKee). */
static void order_nodes(struct network *network, struct arena *arena)
{
    size_t *number = arena_array(arena, network->n + 1, sizeof *number); /* from 1 on; 0: none yet */
    size_t *queue = arena_array(arena, network->n + 1, sizeof *queue);
    struct neighbours neighbours;
    size_t n = 0, done = 0;

    find_neighbours(&neighbours, network, arena);
    for (size_t start = 0; start < network->n; start++) {
        if (number[start] == 0) {
            queue[n++] = start;
            number[start] = n;
        }
        for (; done < n; done++)
            for (size_t i = neighbours.first[queue[done]]; i < neighbours.first[queue[done] + 1]; i++) {
                const size_t next = neighbours.list[i];

                if (next == network->n || number[next] != 0)
                    continue;
                queue[n++] = next;
                number[next] = n;
            }
    }
    network->number = number;
    number[network->n] = network->n + 1;
}

static size_t from_node(const struct network *network, const struct flow_arc *arc)
{
    return network->number[arc->from] - 1;
}

static size_t to_node(const struct network *network, const struct flow_arc *arc)
{
    return network->number[arc->to] - 1;
}

static void make_matrix(struct network *network, struct arena *arena)
{
    struct matrix *matrix = &network->matrix;

    matrix->n = network->n;
    matrix->first = arena_array(arena, matrix->n, sizeof *matrix->first);
    matrix->rows = arena_array(arena, matrix->n, sizeof *matrix->rows);
    for (size_t i = 0; i < matrix->n; i++)
        matrix->first[i] = i;
    for (size_t i = 0; i < network->n_arcs; i++) {
        const size_t from = from_node(network, &network->arcs[i]);
        const size_t to = to_node(network, &network->arcs[i]);
        const size_t high = from > to ? from : to, low = from > to ? to : from;

        if (high < matrix->n && low < matrix->first[high])
            matrix->first[high] = low;
    }
    for (size_t i = 0; i < matrix->n; i++)
        matrix->rows[i] = arena_array(arena, i + 1 - matrix->first[i], sizeof(double));
}

/* ---- A step ---------------------------------------------------------------------------------- */

static double conductance(const struct flow_arc *arc)
{
    return 1 / (arc->weight + LEAST_WEIGHT + arc->price / arc->flow);
}

static double potential_at(const struct network *network, const double *potential, size_t node)
{
    return node < network->n ? potential[node] : 0;
}

/* What is wrong with the first equation, if the price were barrier / flow. */
static double error_of(const struct network *network, const struct flow_arc *arc)
{
    return arc->weight * (arc->flow - arc->wanted) + LEAST_WEIGHT * arc->flow +
           potential_at(network, network->potential, to_node(network, arc)) -
           potential_at(network, network->potential, from_node(network, arc)) - network->barrier / arc->flow;
}

static void add_arc(struct network *network, const struct flow_arc *arc)
{
    const double g = conductance(arc), flow = arc->flow - g * error_of(network, arc);
    const size_t from = from_node(network, arc), to = to_node(network, arc), n = network->n;

    if (from == to)
        return;
    if (from < n) {
        *element(&network->matrix, from, from) += g;
        network->side[from] -= flow;
    }
    if (to < n) {
        *element(&network->matrix, to, to) += g;
        network->side[to] += flow;
    }
    if (from < n && to < n)
        *element(&network->matrix, from, to) -= g;
}

static void find_potentials(struct network *network)
{
    struct matrix *matrix = &network->matrix;

    memset(network->side, 0, network->n * sizeof *network->side);
    for (size_t i = 0; i < matrix->n; i++)
        memset(matrix->rows[i], 0, (i + 1 - matrix->first[i]) * sizeof(double));
    for (size_t i = 0; i < network->n_arcs; i++)
        add_arc(network, &network->arcs[i]);
    for (size_t i = 0; i < matrix->n; i++)
        *element(matrix, i, i) += RIDGE + RIDGE * *element(matrix, i, i);
    factor(matrix);
    solve(matrix, network->side);
}

static double price_step(const struct network *network, const struct flow_arc *arc)
{
    return network->barrier / arc->flow - arc->price - arc->price / arc->flow * arc->step;
}

/* Returns how much of the step can be taken: flows and prices stay positive. */
static double longest_step(struct network *network)
{
    double longest = 1;

    for (size_t i = 0; i < network->n_arcs; i++) {
        struct flow_arc *arc = &network->arcs[i];
        double price;

        arc->step = -conductance(arc) *
                    (error_of(network, arc) + potential_at(network, network->side, to_node(network, arc)) -
                     potential_at(network, network->side, from_node(network, arc)));
        price = price_step(network, arc);
        if (arc->step < 0)
            longest = fmin(longest, -0.95 * arc->flow / arc->step);
        if (price < 0)
            longest = fmin(longest, -0.95 * arc->price / price);
    }
    return longest;
}

/* Returns the mean of flow times price after the step. */
static double take_flow_step(struct network *network, double part)
{
    double sum = 0;

    for (size_t i = 0; i < network->n_arcs; i++) {
        struct flow_arc *arc = &network->arcs[i];
        const double price = price_step(network, arc);

        arc->flow += part * arc->step;
        arc->price += part * price;
        sum += arc->flow * arc->price;
    }
    for (size_t i = 0; i < network->n; i++)
        network->potential[i] += part * network->side[i];
    return sum / (double)network->n_arcs;
}

void flow_solve(struct flow_arc *arcs, size_t n_arcs, size_t n_nodes, struct arena *arena)
{
    struct network network = {.arcs = arcs, .n_arcs = n_arcs, .n = n_nodes, .barrier = 1};

    order_nodes(&network, arena);
    make_matrix(&network, arena);
    network.potential = arena_array(arena, n_nodes, sizeof(double));
    network.side = arena_array(arena, n_nodes, sizeof(double));
    for (size_t i = 0; i < n_arcs; i++)
        arcs[i].flow = arcs[i].price = 1;
    for (int i = 0; i < MOST_STEPS && network.barrier > LAST_BARRIER; i++) {
        double part;

        find_potentials(&network);
        part = longest_step(&network);
        network.barrier = take_flow_step(&network, part) * (part > 0.9 ? 0.1 : part > 0.5 ? 0.3 : 0.8);
    }
}
