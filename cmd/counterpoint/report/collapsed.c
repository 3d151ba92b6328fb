/* Stacks in the format of Brendan Gregg's stackcollapse scripts, which flamegraph.pl and speedscope read:
 *
 *     main;work;sort 120
 *
 * The outermost function is the first, and the number is the value of all samples with that stack. */
#include <inttypes.h>
#include <stdlib.h>

#include "report.h"
#include "tree.h"

/* Writes a name without the characters that have a meaning in the format. */
static void print_frame(FILE *out, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == ';')
            fputc(':', out);
        else
            fputc((unsigned char)*name < ' ' ? '?' : *name, out);
    }
}

/* Writes the functions that lead to a node, and the node. path has room for all of them. */
static void print_path(const struct tree *tree, size_t node, FILE *out, size_t *path)
{
    size_t n = 0;

    for (; node != 0; node = tree->nodes[node].parent)
        path[n++] = node;
    for (size_t i = n; i > 0; i--) {
        print_frame(out, tree_name(tree, path[i - 1]));
        if (i > 1)
            fputc(';', out);
    }
    if (n == 0)
        fputs("<unknown>", out);
}

enum status print_collapsed(const struct view *view, FILE *out)
{
    struct arena arena = {0};
    struct tree tree;
    size_t *path, node = 0;

    tree_of_calls(&tree, view->profile, view->type);
    path = arena_array(&arena, tree.n, sizeof *path);
    do {
        if (tree.nodes[node].flat != 0) {
            print_path(&tree, node, out, path);
            fprintf(out, " %" PRId64 "\n", tree.nodes[node].flat);
        }
        node = tree_next(&tree, node, false);
    } while (node != 0);
    tree_free(&tree);
    arena_free(&arena);
    return STATUS_OK;
}
