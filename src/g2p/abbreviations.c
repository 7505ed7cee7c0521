/* Tables of short forms: abbreviations, units, currencies, endings of addresses, words that open with an apostrophe. */
#include "g2p/abbreviations.h"

#include <string.h>

#include "base/compiler.h"
#include "g2p/accents.h"

#include "base/banned.h"

#define TITLE STK__ABBREVIATION_TITLE
#define CAPITAL STK__ABBREVIATION_CAPITAL
#define DIGIT STK__ABBREVIATION_DIGIT
#define DATE STK__ABBREVIATION_DATE
#define BARE STK__ABBREVIATION_BARE
#define KNOWN STK__ABBREVIATION_KNOWN
#define LAST STK__ABBREVIATION_LAST
#define PLACE STK__ABBREVIATION_PLACE
#define LOWER STK__ABBREVIATION_LOWER

/* In order of the name. */
static const stk__abbreviation abbreviations[] = {
    {"adm", "admiral", NULL, TITLE},
    {"al", "al", NULL, LOWER},
    {"approx", "approximately", NULL, 0},
    {"apr", "april", NULL, CAPITAL},
    {"apt", "apartment", NULL, DIGIT},
    {"assn", "association", NULL, 0},
    {"asst", "assistant", NULL, 0},
    {"atty", "attorney", NULL, 0},
    {"aug", "august", NULL, CAPITAL},
    {"ave", "avenue", NULL, CAPITAL},
    {"bldg", "building", NULL, 0},
    {"blvd", "boulevard", NULL, 0},
    {"brig", "brigadier", NULL, TITLE},
    {"bros", "brothers", NULL, CAPITAL},
    {"ca", "circa", NULL, DIGIT},
    {"capt", "captain", NULL, TITLE},
    {"ch", "chapter", NULL, DIGIT},
    {"cmdr", "commander", NULL, TITLE},
    {"co", "company", NULL, CAPITAL},
    {"col", "colonel", NULL, TITLE},
    {"corp", "corporation", NULL, 0},
    {"cpl", "corporal", NULL, TITLE},
    {"dec", "december", NULL, CAPITAL},
    {"dept", "department", NULL, 0},
    {"dr", "doctor", "drive", CAPITAL | BARE | PLACE},
    {"esq", "esquire", NULL, 0},
    {"est", "established", NULL, DIGIT},
    {"etc", "et cetera", NULL, BARE | KNOWN | LAST},
    {"ext", "extension", NULL, DIGIT},
    {"feb", "february", NULL, CAPITAL},
    {"fig", "figure", NULL, DIGIT},
    {"fri", "friday", NULL, DATE},
    {"ft", "fort", NULL, TITLE},
    {"gen", "general", NULL, TITLE},
    {"gov", "governor", NULL, TITLE},
    {"govt", "government", NULL, 0},
    {"hon", "honorable", NULL, TITLE},
    {"hwy", "highway", NULL, 0},
    {"inc", "incorporated", NULL, 0},
    {"jan", "january", NULL, CAPITAL},
    {"jr", "junior", NULL, BARE | KNOWN},
    {"jul", "july", NULL, CAPITAL},
    {"jun", "june", NULL, CAPITAL},
    {"lt", "lieutenant", NULL, TITLE},
    {"ltd", "limited", NULL, BARE},
    {"maj", "major", NULL, TITLE},
    {"mar", "march", NULL, DATE},
    {"messrs", "messieurs", NULL, 0},
    {"mfg", "manufacturing", NULL, 0},
    {"mgr", "manager", NULL, 0},
    {"misc", "miscellaneous", NULL, 0},
    {"mon", "monday", NULL, DATE},
    {"mr", "mister", NULL, BARE | KNOWN},
    {"mrs", "missus", NULL, BARE | KNOWN},
    {"ms", "miz", NULL, CAPITAL | BARE | KNOWN},
    {"msgr", "monsignor", NULL, TITLE},
    {"mt", "mount", NULL, TITLE | BARE},
    {"natl", "national", NULL, 0},
    {"no", "number", NULL, DIGIT},
    {"nos", "numbers", NULL, DIGIT},
    {"nov", "november", NULL, CAPITAL},
    {"oct", "october", NULL, CAPITAL},
    {"op", "opus", NULL, DIGIT},
    {"p", "page", NULL, DIGIT | LOWER},
    {"pp", "pages", NULL, DIGIT | LOWER},
    {"pres", "president", NULL, TITLE},
    {"prof", "professor", NULL, TITLE},
    {"pt", "part", NULL, DIGIT},
    {"pvt", "private", NULL, TITLE},
    {"rd", "road", NULL, CAPITAL},
    {"rep", "representative", NULL, TITLE},
    {"rev", "reverend", NULL, TITLE},
    {"sat", "saturday", NULL, DATE},
    {"sen", "senator", NULL, TITLE},
    {"sep", "september", NULL, CAPITAL},
    {"sept", "september", NULL, CAPITAL},
    {"sgt", "sergeant", NULL, TITLE},
    {"sr", "senior", NULL, BARE | KNOWN},
    {"st", "saint", "street", CAPITAL | BARE | PLACE},
    {"sun", "sunday", NULL, DATE},
    {"supt", "superintendent", NULL, TITLE},
    {"tel", "telephone", NULL, 0},
    {"thu", "thursday", NULL, DATE},
    {"thur", "thursday", NULL, DATE},
    {"thurs", "thursday", NULL, CAPITAL},
    {"tue", "tuesday", NULL, DATE},
    {"tues", "tuesday", NULL, CAPITAL},
    {"univ", "university", NULL, 0},
    {"vol", "volume", NULL, DIGIT},
    {"vols", "volumes", NULL, DIGIT},
    {"vs", "versus", NULL, BARE},
    {"wed", "wednesday", NULL, DATE},
};

static int compare(const char *name, const char *word, size_t size)
{
    const int order = strncmp(name, word, size);
    return order ? order : name[size] != 0;
}

/* A word of any bytes against a name that ends with NUL. */
static bool same(const char *name, const char *word, size_t size)
{
    return strlen(name) == size && memcmp(name, word, size) == 0;
}

const stk__abbreviation *stk__abbreviation_find(const char *word, size_t size)
{
    size_t low = 0, high = STK_COUNT(abbreviations);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = compare(abbreviations[middle].name, word, size);
        if (order == 0)
            return &abbreviations[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool stk__abbreviation_maybe_bare(const char *word, size_t size)
{
    /* Second letters by first letter; the names are dr etc jr ltd mr mrs ms mt sr st vs. */
#define BIT(c) (1u << ((c) - 'a'))
    static const unsigned second[26] = {
        ['d' - 'a'] = BIT('r'),
        ['e' - 'a'] = BIT('t'),
        ['j' - 'a'] = BIT('r'),
        ['l' - 'a'] = BIT('t'),
        ['m' - 'a'] = BIT('r') | BIT('s') | BIT('t'),
        ['s' - 'a'] = BIT('r') | BIT('t'),
        ['v' - 'a'] = BIT('s'),
    };
#undef BIT
    return size >= 2 && size <= 3 && (second[word[0] - 'a'] >> (word[1] - 'a') & 1);
}

#define GLUED STK__UNIT_GLUED
#define DEGREES STK__UNIT_DEGREES
#define DEGREE_SIGN "\x85"
#define SQUARED_SIGN "\x8f"
#define CUBED_SIGN "\x90"
#define MICRO_SIGN "\x91"
_Static_assert(STK__FOLD_DEGREE == 0x85 && STK__FOLD_SQUARED == 0x8F && STK__FOLD_CUBED == 0x90 &&
                   STK__FOLD_MICRO == 0x91,
               "the signs above are the codes of folded text");

static const stk__unit units[] = {
    {"%", "percent", "percent", 0},
    {DEGREE_SIGN, "degree", "degrees", DEGREES},
    {DEGREE_SIGN "C", "degree celsius", "degrees celsius", DEGREES},
    {DEGREE_SIGN "F", "degree fahrenheit", "degrees fahrenheit", DEGREES},
    {DEGREE_SIGN "K", "degree kelvin", "degrees kelvin", DEGREES},
    {"\x86", "degree celsius", "degrees celsius", DEGREES},
    {"\x87", "degree fahrenheit", "degrees fahrenheit", DEGREES},
    {"\x88", "euro", "euros", 0},
    {"\x89", "pound", "pounds", 0},
    {"\x8a", "yen", "yen", 0},
    {"\x8b", "cent", "cents", 0},
    {"$", "dollar", "dollars", GLUED},
    {"A", "ampere", "amperes", GLUED},
    {"GB", "gigabyte", "gigabytes", 0},
    {"GHz", "gigahertz", "gigahertz", 0},
    {"GW", "gigawatt", "gigawatts", 0},
    {"GWh", "gigawatt hour", "gigawatt hours", 0},
    {"Gbps", "gigabit per second", "gigabits per second", 0},
    {"GiB", "gibibyte", "gibibytes", 0},
    {"Hz", "hertz", "hertz", 0},
    {"KB", "kilobyte", "kilobytes", 0},
    {"KiB", "kibibyte", "kibibytes", 0},
    {"L", "liter", "liters", GLUED},
    {"MB", "megabyte", "megabytes", 0},
    {"MHz", "megahertz", "megahertz", 0},
    {"MW", "megawatt", "megawatts", 0},
    {"MWh", "megawatt hour", "megawatt hours", 0},
    {"Mbps", "megabit per second", "megabits per second", 0},
    {"MiB", "mebibyte", "mebibytes", 0},
    {"PB", "petabyte", "petabytes", 0},
    {"TB", "terabyte", "terabytes", 0},
    {"TiB", "tebibyte", "tebibytes", 0},
    {"V", "volt", "volts", GLUED},
    {"W", "watt", "watts", GLUED},
    {"cc", "c c", "c c", 0},
    {"cm", "centimeter", "centimeters", 0},
    {"cm" SQUARED_SIGN, "square centimeter", "square centimeters", 0},
    {"cm" CUBED_SIGN, "cubic centimeter", "cubic centimeters", 0},
    {"dB", "decibel", "decibels", 0},
    {"dl", "deciliter", "deciliters", 0},
    {"ft", "foot", "feet", 0},
    {"ft" SQUARED_SIGN, "square foot", "square feet", 0},
    {"g", "gram", "grams", 0},
    {"gal", "gallon", "gallons", 0},
    {"h", "hour", "hours", GLUED},
    {"ha", "hectare", "hectares", GLUED},
    {"hp", "horsepower", "horsepower", 0},
    {"hr", "hour", "hours", 0},
    {"hrs", "hours", "hours", 0},
    {"in", "inch", "inches", GLUED},
    {"kHz", "kilohertz", "kilohertz", 0},
    {"kB", "kilobyte", "kilobytes", 0},
    {"kJ", "kilojoule", "kilojoules", 0},
    {"kV", "kilovolt", "kilovolts", 0},
    {"kW", "kilowatt", "kilowatts", 0},
    {"kWh", "kilowatt hour", "kilowatt hours", 0},
    {"kbps", "kilobit per second", "kilobits per second", 0},
    {"kcal", "kilocalorie", "kilocalories", 0},
    {"kg", "kilogram", "kilograms", 0},
    {"km", "kilometer", "kilometers", 0},
    {"km" SQUARED_SIGN, "square kilometer", "square kilometers", 0},
    {"km/h", "kilometer per hour", "kilometers per hour", 0},
    {"km/s", "kilometer per second", "kilometers per second", 0},
    {"kmh", "kilometer per hour", "kilometers per hour", 0},
    {"kph", "kilometer per hour", "kilometers per hour", 0},
    {"l", "liter", "liters", GLUED},
    {"lb", "pound", "pounds", 0},
    {"lbs", "pounds", "pounds", 0},
    {"m", "meter", "meters", 0},
    {"m" SQUARED_SIGN, "square meter", "square meters", 0},
    {"m" CUBED_SIGN, "cubic meter", "cubic meters", 0},
    {"m/s", "meter per second", "meters per second", 0},
    {"mA", "milliampere", "milliamperes", 0},
    {"mAh", "milliampere hour", "milliampere hours", 0},
    {"mV", "millivolt", "millivolts", 0},
    {"mW", "milliwatt", "milliwatts", 0},
    {"mg", "milligram", "milligrams", 0},
    {"mi", "mile", "miles", 0},
    {"mi" SQUARED_SIGN, "square mile", "square miles", 0},
    {"min", "minute", "minutes", 0},
    {"mins", "minutes", "minutes", 0},
    {"ml", "milliliter", "milliliters", 0},
    {"mL", "milliliter", "milliliters", 0},
    {"mm", "millimeter", "millimeters", 0},
    {"mpg", "mile per gallon", "miles per gallon", 0},
    {"mph", "mile per hour", "miles per hour", 0},
    {"ms", "millisecond", "milliseconds", 0},
    {"nm", "nanometer", "nanometers", 0},
    {"ns", "nanosecond", "nanoseconds", 0},
    {"oz", "ounce", "ounces", 0},
    {"px", "pixel", "pixels", 0},
    {"rpm", "revolution per minute", "revolutions per minute", 0},
    {"sec", "second", "seconds", 0},
    {"secs", "seconds", "seconds", 0},
    {"um", "micrometer", "micrometers", GLUED},
    {"us", "microsecond", "microseconds", GLUED},
    {"yd", "yard", "yards", 0},
    {"yds", "yards", "yards", 0},
    {"yr", "year", "years", 0},
    {"yrs", "years", "years", 0},
    {MICRO_SIGN "g", "microgram", "micrograms", 0},
    {MICRO_SIGN "m", "micrometer", "micrometers", 0},
    {MICRO_SIGN "s", "microsecond", "microseconds", 0},
};

const stk__unit *stk__unit_find(const char *name, size_t size)
{
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        if (units[i].name[0] == name[0] && same(units[i].name, name, size))
            return &units[i];
    }
    return NULL;
}

static const stk__currency currencies[] = {
    {'$', "dollar", "dollars", "cent", "cents"},
    {STK__FOLD_EURO, "euro", "euros", "cent", "cents"},
    {STK__FOLD_POUND, "pound", "pounds", "penny", "pence"},
    {STK__FOLD_YEN, "yen", "yen", NULL, NULL},
    {STK__FOLD_RUPEE, "rupee", "rupees", NULL, NULL},
    {STK__FOLD_WON, "won", "won", NULL, NULL},
    {STK__FOLD_RUBLE, "ruble", "rubles", NULL, NULL},
};

const stk__currency *stk__currency_find(unsigned char sign)
{
    for (size_t i = 0; i < STK_COUNT(currencies); i++) {
        if (currencies[i].sign == sign)
            return &currencies[i];
    }
    return NULL;
}

typedef struct pair {
    const char *name, *words;
} pair;

static const char *find_pair(const pair *pairs, size_t count, const char *word, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (same(pairs[i].name, word, size))
            return pairs[i].words;
    }
    return NULL;
}

const char *stk__currency_country(const char *word, size_t size)
{
    static const pair countries[] = {{"US", "u s"},         {"A", "australian"},  {"AU", "australian"},
                                     {"C", "canadian"},     {"CA", "canadian"},   {"HK", "hong kong"},
                                     {"NZ", "new zealand"}, {"NT", "new taiwan"}, {"S", "singapore"}};
    return find_pair(countries, STK_COUNT(countries), word, size);
}

const char *stk__magnitude_find(const char *word, size_t size, bool glued)
{
    static const pair letters[] = {{"K", "thousand"}, {"k", "thousand"}, {"M", "million"}, {"m", "million"},
                                   {"mn", "million"}, {"B", "billion"},  {"b", "billion"}, {"bn", "billion"},
                                   {"T", "trillion"}, {"tn", "trillion"}};
    static const char *const names[] = {"hundred", "thousand", "million", "billion", "trillion", "quadrillion"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (same(names[i], word, size))
            return names[i];
    }
    if (!glued && size < 2)
        return NULL;
    return find_pair(letters, STK_COUNT(letters), word, size);
}

const char *stk__month_name(int month)
{
    static const char *const names[12] = {"january", "february", "march",     "april",   "may",      "june",
                                          "july",    "august",   "september", "october", "november", "december"};
    return names[(month - 1) % 12];
}

bool stk__month_known(const char *word, size_t size)
{
    for (int i = 1; i <= 12; i++) {
        const char *name = stk__month_name(i);
        if (same(name, word, size) || (size == 3 && memcmp(name, word, 3) == 0))
            return true;
    }
    return same("sept", word, size);
}

static bool listed(const char *const *names, size_t count, const char *word, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (same(names[i], word, size))
            return true;
    }
    return false;
}

bool stk__web_ending(const char *word, size_t size)
{
    static const char *const endings[] = {
        "com", "org",  "net", "edu",  "gov", "mil", "int",  "info", "biz", "dev", "app", "xyz", "io",   "ai",
        "tv",  "me",   "us",  "uk",   "de",  "fr",  "eu",   "co",   "ca",  "jp",  "cn",  "ru",  "br",   "au",
        "nl",  "se",   "ch",  "es",   "pl",  "gg",  "ly",   "html", "htm", "php", "js",  "py",  "txt",  "pdf",
        "doc", "docx", "jpg", "jpeg", "png", "gif", "mp3",  "mp4",  "wav", "zip", "exe", "csv", "json", "xml",
        "md",  "sh",   "cpp", "java", "css", "rs",  "yaml", "toml", "tar", "gz"};
    return listed(endings, STK_COUNT(endings), word, size);
}

bool stk__elided(const char *word, size_t size)
{
    static const char *const words[] = {"tis",    "twas",  "twere", "twould", "twill", "em",     "til",
                                        "till",   "cause", "cuz",   "bout",   "round", "cept",   "neath",
                                        "gainst", "nuff",  "fraid", "course", "kay",   "tisn't", "twasn't"};
    return listed(words, STK_COUNT(words), word, size);
}

bool stk__opens_sentence(const char *word, size_t size)
{
    static const char *const words[] = {"the",  "he",  "she",  "it",   "we",   "they",  "i",     "in",  "on",  "at",
                                        "and",  "but", "this", "that", "then", "there", "a",     "an",  "his", "her",
                                        "when", "if",  "as",   "you",  "for",  "its",   "after", "what"};
    return listed(words, STK_COUNT(words), word, size);
}
