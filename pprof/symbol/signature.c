/*
 * Makes names of C++ functions that have no linkage name in the debug information. gcc writes none for a
 * function of internal linkage, and the name in the source is then "parse" for each of
 * "(anonymous namespace)::Json::parse(int)" and "(anonymous namespace)::Xml::parse(char const*) const". The
 * names have the form that demanglers print, so that a function has one name, whether it was inlined or not.
 *
 * A lambda's type has no name, and a demangler numbers the lambdas of a function, also those that the
 * compiler has left out of the debug information. So the place in the source tells them apart.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "part.h"

/* The deepest nesting of scopes and types that is read, the longest way from a function to its declaration or
 * from a type to what it points to in the end, and the longest name. Debug information may be damaged. */
enum { MAX_NESTING = 40, MAX_REFERENCES = 16, MAX_NAME = 4096 };

struct printer {
    struct cp__dwarf *dwarf;
    FILE *out;
    size_t n; /* characters so far */
    unsigned nesting;
    const struct function *functions; /* those whose parameters are being printed */
    int result;
};

/* A function, in which the type of a parameter may stand. */
struct function {
    const void *entry;
    const struct function *outer;
};

static void put_function(struct printer *p, const Dwarf_Die *die, bool is_scope);
static void put_type_name(struct printer *p, const Dwarf_Die *die);

/* ---- Words ----------------------------------------------------------------------------------- */

static void put_part(struct printer *p, const char *text, size_t n)
{
    if (p->n < MAX_NAME)
        fprintf(p->out, "%.*s", (int)n, text);
    p->n += n;
}

static void put(struct printer *p, const char *text)
{
    put_part(p, text, strlen(text));
}

static bool is_of_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Prints a name in the source, in which gcc spells types in another way than demanglers. */
static void put_name(struct printer *p, const char *name)
{
    static const char *const spellings[][2] = {{"long long unsigned int", "unsigned long long"},
                                               {"long unsigned int", "unsigned long"},
                                               {"short unsigned int", "unsigned short"},
                                               {"long long int", "long long"},
                                               {"long int", "long"},
                                               {"short int", "short"}};
    const char *at = name;

    while (*at != '\0') {
        size_t n = 1, i = 0;

        while (i < 6 && (strncmp(at, spellings[i][0], strlen(spellings[i][0])) != 0 ||
                         is_of_word(at[strlen(spellings[i][0])]) || (at > name && is_of_word(at[-1]))))
            i++;
        if (i < 6)
            n = strlen(spellings[i][0]);
        put_part(p, i < 6 ? spellings[i][1] : at, i < 6 ? strlen(spellings[i][1]) : 1);
        at += n;
    }
}

/* ---- Entries --------------------------------------------------------------------------------- */

static bool has_flag(const Dwarf_Die *die, unsigned name)
{
    Dwarf_Die copy = *die;
    Dwarf_Attribute attribute;
    bool flag = false;

    return dwarf_formflag(dwarf_attr(&copy, name, &attribute), &flag) == 0 && flag;
}

static const char *die_name(const Dwarf_Die *die)
{
    Dwarf_Die copy = *die;

    return dwarf_diename(&copy);
}

static int tag_of(const Dwarf_Die *die)
{
    Dwarf_Die copy = *die;

    return dwarf_tag(&copy);
}

/* Goes to the first child of an entry, or to the next one. Returns whether there is one. */
static bool next_child(const Dwarf_Die *parent, Dwarf_Die *child)
{
    Dwarf_Die copy = *parent;

    return (child->addr == NULL ? dwarf_child(&copy, child) : dwarf_siblingof(child, child)) == 0;
}

/* Returns whether an entry has a child with that tag whose name contains a text, which may be empty. */
static bool has_child(const Dwarf_Die *die, int tag, const char *text)
{
    Dwarf_Die child = {.addr = NULL};

    while (next_child(die, &child))
        if (dwarf_tag(&child) == tag && (text[0] == '\0' || (dwarf_diename(&child) != NULL &&
                                                             strstr(dwarf_diename(&child), text) != NULL)))
            return true;
    return false;
}

static bool is_class(const Dwarf_Die *die)
{
    const int tag = tag_of(die);

    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

Dwarf_Die cp__dwarf_declaration(const Dwarf_Die *die)
{
    Dwarf_Die now = *die, next;

    for (unsigned i = 0; i < MAX_REFERENCES; i++) {
        if (!cp__dwarf_follow(&now, DW_AT_abstract_origin, &next) &&
            !cp__dwarf_follow(&now, DW_AT_specification, &next))
            break;
        now = next;
    }
    return now;
}

/* Stores the entry that an entry stands in, passing over blocks, which are no scopes. */
static bool find_scope(struct printer *p, const Dwarf_Die *die, Dwarf_Die *scope)
{
    const Dwarf_Die declaration = cp__dwarf_declaration(die);
    int found = cp__dwarf_find_parent(p->dwarf, &declaration, scope);

    while (found == 1 && !is_class(scope) && tag_of(scope) != DW_TAG_namespace &&
           tag_of(scope) != DW_TAG_subprogram && tag_of(scope) != DW_TAG_module) {
        const Dwarf_Die block = *scope;

        found = cp__dwarf_find_parent(p->dwarf, &block, scope);
    }
    if (found < 0)
        p->result = found;
    return found == 1;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* Prints what stands for a type without a name: where it is declared. */
static void put_unnamed(struct printer *p, const Dwarf_Die *die)
{
    /* gcc says that a lambda's type has a constructor or a destructor, and clang that it is a class. */
    const bool is_lambda = tag_of(die) == DW_TAG_class_type || has_child(die, DW_TAG_subprogram, "<lambda>");
    Dwarf_Die copy = *die;
    int line = 0, column = 0;
    char place[64];

    (void)dwarf_decl_line(&copy, &line);
    if (dwarf_decl_column(&copy, &column) == 0 && column > 0)
        snprintf(place, sizeof place, "{%s at %d:%d}", is_lambda ? "lambda" : "unnamed type", line, column);
    else
        snprintf(place, sizeof place, "{%s at %d}", is_lambda ? "lambda" : "unnamed type", line);
    put(p, place);
}

static void put_template_arguments(struct printer *p, const Dwarf_Die *die, bool *is_first)
{
    Dwarf_Die child = {.addr = NULL}, type;

    while (next_child(die, &child) && p->n < MAX_NAME) {
        Dwarf_Attribute attribute;
        Dwarf_Sword value;
        char number[24];

        switch (dwarf_tag(&child)) {
        case DW_TAG_template_type_parameter:
            put(p, *is_first ? "" : ", ");
            *is_first = false;
            put_type_name(p, cp__dwarf_follow(&child, DW_AT_type, &type) ? &type : NULL);
            break;
        case DW_TAG_template_value_parameter:
            put(p, *is_first ? "" : ", ");
            *is_first = false;
            if (dwarf_formsdata(dwarf_attr(&child, DW_AT_const_value, &attribute), &value) != 0)
                break;
            snprintf(number, sizeof number, "%lld", (long long)value);
            put(p, number);
            break;
        case DW_TAG_GNU_template_parameter_pack:
            if (p->nesting++ < MAX_NESTING)
                put_template_arguments(p, &child, is_first);
            p->nesting--;
            break;
        default:
            break;
        }
    }
}

/* Prints the name of a type or a function without its scopes. In gcc's names of templates, all lambdas of a
 * function with the same parameters have the same name. */
static void put_own_name(struct printer *p, const Dwarf_Die *die)
{
    const char *name = die_name(die), *arguments = name == NULL ? NULL : strchr(name, '<');
    bool is_first = true;

    if (name == NULL) {
        put_unnamed(p, die);
    } else if (arguments != NULL && (strstr(name, "<lambda(") != NULL || strstr(name, "<unnamed ") != NULL)) {
        put_part(p, name, (size_t)(arguments - name));
        put(p, "<");
        put_template_arguments(p, die, &is_first);
        put(p, ">");
    } else {
        put_name(p, name);
    }
}

/* Prints the scopes that an entry stands in, the outermost first, each with "::" behind it. */
static void put_scopes(struct printer *p, const Dwarf_Die *die)
{
    Dwarf_Die scope;

    if (p->n >= MAX_NAME || p->nesting == MAX_NESTING || !find_scope(p, die, &scope))
        return;
    p->nesting++;
    if (dwarf_tag(&scope) == DW_TAG_subprogram) {
        put_function(p, &scope, true);
    } else {
        put_scopes(p, &scope);
        if (dwarf_tag(&scope) == DW_TAG_namespace && die_name(&scope) == NULL)
            put(p, "(anonymous namespace)");
        else
            put_own_name(p, &scope);
    }
    put(p, "::");
    p->nesting--;
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* Prints the parameters of a function or of a function's type. */
static void put_parameters(struct printer *p, const Dwarf_Die *die, bool *is_first)
{
    Dwarf_Die child = {.addr = NULL}, type;

    while (next_child(die, &child) && p->n < MAX_NAME) {
        const int tag = dwarf_tag(&child);

        if (tag == DW_TAG_GNU_formal_parameter_pack && p->nesting < MAX_NESTING) {
            p->nesting++;
            put_parameters(p, &child, is_first);
            p->nesting--;
        }
        if (has_flag(&child, DW_AT_artificial) ||
            (tag != DW_TAG_formal_parameter && tag != DW_TAG_unspecified_parameters))
            continue;
        put(p, *is_first ? "" : ", ");
        *is_first = false;
        if (tag == DW_TAG_unspecified_parameters) {
            put(p, "...");
        } else if (cp__dwarf_follow(&child, DW_AT_type, &type)) {
            while (dwarf_tag(&type) == DW_TAG_const_type && cp__dwarf_follow(&type, DW_AT_type, &type))
                ; /* a constant parameter is the function's own affair */
            put_type_name(p, &type);
        }
    }
}

static void put_all_parameters(struct printer *p, const Dwarf_Die *die)
{
    bool is_first = true;

    put(p, "(");
    put_parameters(p, die, &is_first);
    put(p, ")");
}

/* Returns what a type adds behind the type that it refers to; NULL if it is no such type. */
static const char *mark_of(const Dwarf_Die *die)
{
    switch (tag_of(die)) {
    case DW_TAG_pointer_type:
        return "*";
    case DW_TAG_reference_type:
        return "&";
    case DW_TAG_rvalue_reference_type:
        return "&&";
    case DW_TAG_const_type:
        return " const";
    case DW_TAG_volatile_type:
        return " volatile";
    case DW_TAG_restrict_type:
        return " restrict";
    case DW_TAG_typedef: /* no type of its own */
        return "";
    default:
        return NULL;
    }
}

/* Prints the type at the end of a chain of pointers, with the chain's marks. die is NULL for void. */
static void put_end_of_type(struct printer *p, const Dwarf_Die *die, const char *marks)
{
    const int tag = die == NULL ? 0 : tag_of(die);
    const bool is_nested = tag == DW_TAG_subroutine_type || tag == DW_TAG_array_type;
    Dwarf_Die type;

    if (die == NULL) {
        put(p, "void");
    } else if (is_nested || tag == DW_TAG_ptr_to_member_type) {
        put_type_name(p, cp__dwarf_follow(die, DW_AT_type, &type) ? &type : NULL);
    } else {
        put_scopes(p, die);
        put_own_name(p, die);
    }
    if (tag == DW_TAG_ptr_to_member_type && cp__dwarf_follow(die, DW_AT_containing_type, &type)) {
        put(p, " ");
        put_type_name(p, &type);
        put(p, "::*");
    }
    put(p, is_nested ? " (" : "");
    put(p, marks);
    put(p, is_nested ? ")" : "");
    if (tag == DW_TAG_subroutine_type)
        put_all_parameters(p, die);
    else if (tag == DW_TAG_array_type)
        put(p, " []");
}

/* Returns whether an entry is the only name that a class has: "typedef struct { } name". */
static bool is_only_name(const Dwarf_Die *die)
{
    Dwarf_Die type;

    return tag_of(die) == DW_TAG_typedef && cp__dwarf_follow(die, DW_AT_type, &type) && is_class(&type) &&
           die_name(&type) == NULL;
}

static void put_type_name(struct printer *p, const Dwarf_Die *die)
{
    char marks[MAX_REFERENCES * 10 + 1] = "", longer[sizeof marks];
    Dwarf_Die now, next;
    const char *mark;
    bool is_void = die == NULL;

    if (p->n >= MAX_NAME || p->nesting == MAX_NESTING)
        return;
    p->nesting++;
    if (!is_void)
        now = *die;
    for (unsigned i = 0; i < MAX_REFERENCES && !is_void; i++) {
        mark = mark_of(&now);
        if (mark == NULL || is_only_name(&now))
            break;
        snprintf(longer, sizeof longer, "%s%s", mark, marks);
        memcpy(marks, longer, sizeof marks);
        if (cp__dwarf_follow(&now, DW_AT_type, &next))
            now = next;
        else
            is_void = true;
    }
    put_end_of_type(p, is_void ? NULL : &now, marks);
    p->nesting--;
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* Returns whether the function's name is the linker's: main() and functions of C. */
static bool is_plain(struct printer *p, const Dwarf_Die *die)
{
    Dwarf_Die scope, copy = *die;
    Dwarf_Attribute attribute;

    return has_flag(die, DW_AT_external) && dwarf_attr(&copy, DW_AT_linkage_name, &attribute) == NULL &&
           (!find_scope(p, die, &scope) || dwarf_tag(&scope) == DW_TAG_namespace);
}

/* Returns whether the debug information has types. gcc -g1 and clang -g1 write functions without these. A
 * lambda's operator has no line at -O0. */
static bool has_types(const Dwarf_Die *die)
{
    Dwarf_Die copy = *die, unit;
    Dwarf_Attribute attribute;
    const char *producer;
    int line;

    if ((dwarf_decl_line(&copy, &line) != 0 && !has_flag(die, DW_AT_artificial)) ||
        dwarf_diecu(&copy, &unit, NULL, NULL) == NULL)
        return false;
    producer = dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attribute));
    return producer == NULL || strstr(producer, " -g1") == NULL;
}

/* Returns whether a method has the name of its class. */
static bool is_constructor(struct printer *p, const Dwarf_Die *die, const char *name)
{
    const size_t n = strcspn(name, "<");
    const char *class_name;
    Dwarf_Die scope;

    if (!find_scope(p, die, &scope) || !is_class(&scope))
        return false;
    class_name = die_name(&scope);
    return class_name != NULL && strcspn(class_name, "<") == n && strncmp(class_name, name, n) == 0;
}

/* Returns whether the type of a function's result is part of its name: the function is a template, but no
 * constructor or conversion. */
static bool has_result_in_name(struct printer *p, const Dwarf_Die *die, const char *name)
{
    if (!has_child(die, DW_TAG_template_type_parameter, "") &&
        !has_child(die, DW_TAG_template_value_parameter, "") &&
        !has_child(die, DW_TAG_GNU_template_parameter_pack, ""))
        return false;
    return strncmp(name, "operator ", strlen("operator ")) != 0 && !is_constructor(p, die, name);
}

/* Prints what a method says of its object. */
static void put_qualifiers(struct printer *p, const Dwarf_Die *die)
{
    Dwarf_Die object = {.addr = NULL}, type;

    while (next_child(die, &object) &&
           (dwarf_tag(&object) != DW_TAG_formal_parameter || !has_flag(&object, DW_AT_artificial)))
        ;
    if (object.addr != NULL && dwarf_tag(&object) == DW_TAG_formal_parameter &&
        cp__dwarf_follow(&object, DW_AT_type, &type)) {
        if (dwarf_tag(&type) == DW_TAG_const_type) /* the definition's object is a constant pointer */
            (void)cp__dwarf_follow(&type, DW_AT_type, &type);
        if (dwarf_tag(&type) == DW_TAG_pointer_type && cp__dwarf_follow(&type, DW_AT_type, &type) &&
            dwarf_tag(&type) == DW_TAG_const_type)
            put(p, " const");
    }
    put(p, has_flag(die, DW_AT_reference) ? " &" : has_flag(die, DW_AT_rvalue_reference) ? " &&" : "");
}

/* Returns whether the parameters of a function are being printed. A coroutine of gcc has a parameter whose
 * type stands in the coroutine. */
static bool has_begun(const struct printer *p, const Dwarf_Die *die)
{
    const struct function *function = p->functions;

    while (function != NULL && function->entry != die->addr)
        function = function->outer;
    return function != NULL;
}

static void put_function(struct printer *p, const Dwarf_Die *die, bool is_scope)
{
    const Dwarf_Die declaration = cp__dwarf_declaration(die);
    const char *name = die_name(&declaration);
    const struct function *outer = p->functions;
    Dwarf_Die result;

    if (name == NULL || is_plain(p, &declaration)) {
        put(p, name != NULL ? name : "{unnamed}");
        return;
    }
    if (!has_types(&declaration)) {
        put_scopes(p, &declaration);
        put_name(p, name);
        return;
    }
    if (!is_scope && has_result_in_name(p, &declaration, name)) {
        put_type_name(p, cp__dwarf_follow(&declaration, DW_AT_type, &result) ? &result : NULL);
        put(p, " ");
    }
    put_scopes(p, &declaration);
    put_own_name(p, &declaration);
    if (has_begun(p, &declaration))
        return;
    p->functions = &(struct function){declaration.addr, outer};
    put_all_parameters(p, &declaration);
    p->functions = outer;
    put_qualifiers(p, &declaration);
}

int cp__dwarf_qualify(struct cp__dwarf *dwarf, const Dwarf_Die *declaration, char **qualified)
{
    const char *name = die_name(declaration);
    char *text = NULL;
    size_t size = 0;
    struct printer p = {.dwarf = dwarf, .out = open_memstream(&text, &size)};

    *qualified = NULL;
    if (p.out == NULL)
        return -ENOMEM;
    put_function(&p, declaration, false);
    if (fclose(p.out) != 0)
        p.result = -ENOMEM;
    if (p.result == 0 && name != NULL && strcmp(text, name) != 0)
        *qualified = text;
    else
        free(text);
    return p.result;
}
