/* Figures with three digits, a unit that fits, and a spread that never reads as nothing when there is some. */
#include "bench/quantity.h"

#include <math.h>
#include <string.h>

#include "base/banned.h"

/* From here on figures are written with an exponent; below the other, too. */
#define HUGE_FIGURE 999999999.5
#define TINY_FIGURE 0.0009995

typedef struct quantity_scale {
    double factor;
    const char *name; /* behind the figure, "" for none */
    bool whole;       /* values without a fraction are shown without decimals */
    bool share;
} quantity_scale;

/* The limits lie where three digits would round up to the next unit: 999.5 ms reads "1.00 s". */
static quantity_scale time_scale(double x)
{
    if (x == 0 || x >= 0.9995)
        return (quantity_scale){.factor = 1, .name = "s"};
    if (x >= 0.9995e-3)
        return (quantity_scale){.factor = 1e3, .name = "ms"};
    if (x >= 0.9995e-6)
        return (quantity_scale){.factor = 1e6, .name = "us"};
    return (quantity_scale){.factor = 1e9, .name = "ns"};
}

static quantity_scale byte_scale(double x)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    double factor = 1;
    for (; x * factor >= 1023.5 && u + 1 < STK_COUNT(names); u++)
        factor /= 1024;
    return (quantity_scale){.factor = factor, .name = names[u], .whole = u == 0};
}

static quantity_scale instruction_scale(double x)
{
    static const char *const names[] = {"instructions", "k instructions", "M instructions", "G instructions",
                                        "T instructions"};
    size_t u = 0;
    double factor = 1;
    for (; x * factor >= 999.5 && u + 1 < STK_COUNT(names); u++)
        factor /= 1000;
    return (quantity_scale){.factor = factor, .name = names[u], .whole = u == 0};
}

static quantity_scale scale_of(double value, const char *unit)
{
    const double x = isfinite(value) ? fabs(value) : 0;
    if (strcmp(unit, "s") == 0)
        return time_scale(x);
    if (strcmp(unit, "bytes") == 0)
        return byte_scale(x);
    if (strcmp(unit, "share") == 0)
        return (quantity_scale){.factor = 100, .name = "%", .share = true};
    if (strcmp(unit, "instructions") == 0)
        return instruction_scale(x);
    return (quantity_scale){.factor = 1, .name = strcmp(unit, "count") == 0 ? "" : unit, .whole = true};
}

/* Decimals that give `digits` significant ones; x as it will be rounded. */
static int decimals_for(double x, int digits)
{
    int decimals = digits - 1;
    for (double limit = 10 - 0.5 * pow(10, 1 - digits); decimals > 0 && x >= limit; limit *= 10)
        decimals--;
    for (double limit = 1 - 0.5 * pow(10, -digits); x > 0 && x < limit && decimals < digits + 3; limit /= 10)
        decimals++;
    return decimals;
}

static int decimals_of(const quantity_scale *scale, double x)
{
    if (x == 0 || !isfinite(x))
        return 0;
    if (scale->whole && x == floor(x))
        return 0;
    if (scale->share && x >= 0.095)
        return x < 9.95;
    return decimals_for(x, scale->share ? 2 : 3);
}

static bool rounds_to_zero(double x, int decimals)
{
    return fabs(x) < 0.5 * pow(10, -decimals);
}

static void put_separated(stk__text *t, double x, int decimals)
{
    char plain[64];
    stk__text digits;
    stk__text_fixed(&digits, plain, sizeof plain);
    stk__text_printf(&digits, "%.*f", decimals, fabs(x));
    const size_t whole = strcspn(plain, ".");
    if (x < 0 && !rounds_to_zero(x, decimals))
        stk__text_putc(t, '-');
    for (size_t i = 0; plain[i]; i++) {
        if (i && i < whole && (whole - i) % 3 == 0)
            stk__text_putc(t, ',');
        stk__text_putc(t, plain[i]);
    }
}

static void put_figure(stk__text *t, double x, int decimals)
{
    if (isnan(x))
        stk__text_putc(t, '-');
    else if (isinf(x))
        stk__text_puts(t, x < 0 ? "-inf" : "inf");
    else if (fabs(x) >= HUGE_FIGURE || (x != 0 && fabs(x) < TINY_FIGURE))
        stk__text_printf(t, "%.2e", x);
    else
        put_separated(t, x, decimals);
}

/* A spread that these decimals hide is told as below the smallest of them; one of exactly 0 as "0". */
static void put_spread(stk__text *t, double spread, int decimals)
{
    if (spread == 0)
        stk__text_putc(t, '0');
    else if (isfinite(spread) && rounds_to_zero(spread, decimals))
        stk__text_printf(t, "<%.*f", decimals, pow(10, -decimals));
    else if (isfinite(spread) && fabs(spread) < HUGE_FIGURE)
        put_separated(t, spread, decimals);
    else
        put_figure(t, spread, decimals);
}

static void put_name(stk__text *t, const quantity_scale *scale)
{
    if (scale->name[0]) {
        stk__text_putc(t, ' ');
        stk__text_puts(t, scale->name);
    }
}

/* The decimals of both; figures with an exponent have none to share. */
static int common_decimals(const quantity_scale *scale, double value, double spread)
{
    int decimals = decimals_of(scale, fabs(value));
    if (!isfinite(spread) || spread == 0)
        return decimals;
    for (int more = 0; more < 2 && rounds_to_zero(spread, decimals); more++)
        decimals++;
    return decimals;
}

static bool has_exponent(double x)
{
    return isfinite(x) && x != 0 && (fabs(x) >= HUGE_FIGURE || fabs(x) < TINY_FIGURE);
}

/* The spread beside its value. */
static void put_beside(stk__text *t, double value, double spread, int decimals)
{
    if (has_exponent(value) && isfinite(spread) && spread != 0)
        stk__text_printf(t, "%.1e", spread);
    else
        put_spread(t, spread, decimals);
}

double stk__quantity_factor(double value, const char *unit, const char **out_name)
{
    const quantity_scale scale = scale_of(value, unit);
    *out_name = scale.name;
    return scale.factor;
}

void stk__quantity_like(stk__text *t, double value, const stk__quantity_style *style)
{
    const quantity_scale scale = scale_of(style->fits, style->unit);
    put_figure(t, value * scale.factor,
               common_decimals(&scale, style->mean * scale.factor, style->spread * scale.factor));
}

void stk__quantity(stk__text *t, double value, const char *unit)
{
    if (isnan(value)) {
        stk__text_putc(t, '-');
        return;
    }
    const quantity_scale scale = scale_of(value, unit);
    const double x = value * scale.factor;
    put_figure(t, x, decimals_of(&scale, fabs(x)));
    put_name(t, &scale);
}

void stk__quantity_style_put(stk__text *t, const stk__quantity_style *style)
{
    const quantity_scale scale = scale_of(style->fits, style->unit);
    const double x = style->mean * scale.factor, y = style->spread * scale.factor;
    const int decimals = common_decimals(&scale, x, y);
    put_figure(t, x, decimals);
    if (isnan(x))
        return;
    put_name(t, &scale);
    if (isnan(y))
        return;
    stk__text_puts(t, " +- ");
    put_beside(t, x, y, decimals);
}

void stk__quantity_spread(stk__text *t, double value, double spread, const char *unit)
{
    stk__quantity_style_put(t, &(stk__quantity_style){value, spread, value, unit});
}

void stk__quantity_pair(stk__text *t, double value, double spread, const char *unit)
{
    if (isnan(value)) {
        stk__text_putc(t, '-');
        return;
    }
    const quantity_scale scale = scale_of(value, unit);
    const double x = value * scale.factor, y = spread * scale.factor;
    const int decimals = common_decimals(&scale, x, y);
    stk__text_putc(t, '(');
    put_figure(t, x, decimals);
    stk__text_puts(t, ", ");
    put_beside(t, x, y, decimals);
    stk__text_putc(t, ')');
    put_name(t, &scale);
}

void stk__ratio(stk__text *t, double ratio)
{
    const double x = fabs(ratio);
    if (isfinite(ratio) && x != 0 && (x >= 99999.5 || x < TINY_FIGURE / 10))
        stk__text_printf(t, "%.2e", ratio);
    else if (x >= 0.0995 && x < 1.9995)
        put_separated(t, ratio, 3); /* as fine above 1 as below */
    else if (isfinite(ratio))
        put_separated(t, ratio, x == 0 ? 0 : decimals_for(x, 3));
    else
        put_figure(t, ratio, 0);
}
