/* A check of SVG documents: well-formed as far as ours go, without scripts or links. */
#ifndef STK_TESTS_SVG_CHECK_H
#define STK_TESTS_SVG_CHECK_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { DEPTH_MOST = 16, TAG_MOST = 32 };

typedef struct xml_check {
    const char *at;
    char open[DEPTH_MOST][TAG_MOST];
    size_t depth, elements;
} xml_check;

static inline void check_characters(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t left = strlen(text); left;) {
        const size_t n = stk__utf8_length(p, left);
        if (n == 0 || (*p < 0x20 && *p != '\n') || *p == 0x7f)
            fail_msg("byte %02x before '%.40s'", *p, (const char *)p + 1);
        p += n;
        left -= n;
    }
}

static inline void check_entity(xml_check *x)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < STK_COUNT(known); i++) {
        if (strncmp(x->at, known[i], strlen(known[i])) == 0) {
            x->at += strlen(known[i]);
            return;
        }
    }
    fail_msg("a bare & at '%.40s'", x->at);
}

static inline size_t read_name(xml_check *x, char name[TAG_MOST])
{
    size_t n = 0;
    while (isalnum((unsigned char)*x->at) || *x->at == '-' || *x->at == ':') {
        if (n + 1 == TAG_MOST)
            fail_msg("a name that is too long at '%.40s'", x->at);
        name[n++] = *x->at++;
    }
    name[n] = 0;
    return n;
}

static inline void check_attributes(xml_check *x)
{
    char name[TAG_MOST];
    while (*x->at == ' ') {
        while (*x->at == ' ')
            x->at++;
        if (read_name(x, name) == 0)
            return;
        if (strncmp(name, "on", 2) == 0 || strstr(name, "href"))
            fail_msg("the attribute %s", name);
        if (*x->at++ != '=' || *x->at++ != '"')
            fail_msg("an attribute without a value at '%.40s'", x->at);
        while (*x->at && *x->at != '"') {
            if (*x->at == '<')
                fail_msg("< in an attribute at '%.40s'", x->at);
            if (*x->at == '&')
                check_entity(x);
            else
                x->at++;
        }
        x->at += *x->at == '"';
    }
}

static inline void check_tag(xml_check *x)
{
    char name[TAG_MOST];
    const bool closes = x->at[1] == '/';
    x->at += closes ? 2 : 1;
    if (read_name(x, name) == 0)
        fail_msg("a bare < at '%.40s'", x->at);
    if (closes) {
        assert_true(x->depth > 0);
        assert_string_equal(x->open[--x->depth], name);
    } else {
        assert_true(x->depth < DEPTH_MOST);
        snprintf(x->open[x->depth++], TAG_MOST, "%s", name);
        x->elements++;
        check_attributes(x);
        if (*x->at == '/')
            x->at++, x->depth--;
    }
    if (*x->at++ != '>')
        fail_msg("a tag that does not end at '%.40s'", x->at - 1);
}

/* Well-formed, without scripts or links, and no figure that is no number. */
static inline size_t assert_svg(const char *svg)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"";
    assert_memory_equal(svg, head, sizeof head - 1);
    check_characters(svg);
    static const char *const never[] = {"<script", "<style", "<image", "<use", "=\"nan",
                                        "=\"-nan", "=\"inf", " nan",   "Lnan"};
    for (size_t i = 0; i < STK_COUNT(never); i++) {
        if (strstr(svg, never[i]))
            fail_msg("'%s' at '%.60s'", never[i], strstr(svg, never[i]));
    }
    xml_check x = {.at = strchr(svg, '\n') + 1};
    while (*x.at) {
        if (*x.at == '<')
            check_tag(&x);
        else if (*x.at == '&')
            check_entity(&x);
        else if (*x.at++ == '>')
            fail_msg("a bare > before '%.40s'", x.at);
        if (x.depth == 0 && *x.at != '\n' && *x.at)
            fail_msg("text outside of the document: '%.40s'", x.at);
    }
    assert_int_equal(x.depth, 0);
    assert_non_null(strstr(svg, "<title>"));
    assert_non_null(strstr(svg, "<desc>"));
    return x.elements;
}

#endif
