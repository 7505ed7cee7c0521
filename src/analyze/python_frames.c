/* Names of Python functions: the spellings of PyTorch, JAX, TensorFlow and py-spy; own code and library code. */
#include "analyze/python_frames.h"

#include <string.h>

#include "base/banned.h"

/* ---- text ---- */

static bool starts(const char *s, size_t size, const char *prefix)
{
    const size_t n = strlen(prefix);
    return size >= n && memcmp(s, prefix, n) == 0;
}

static bool ends(const char *s, size_t size, const char *suffix)
{
    const size_t n = strlen(suffix);
    return size >= n && memcmp(s + size - n, suffix, n) == 0;
}

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at the end of the text: their number. */
static size_t digits_before(const char *s, size_t size)
{
    size_t n = 0;
    while (n < size && is_digit(s[size - 1 - n]))
        n++;
    return n;
}

/* Lines past 9 digits are none. */
static int64_t line_of(const char *digits, size_t count)
{
    int64_t line = 0;
    for (size_t i = 0; i < count && i < 9; i++)
        line = line * 10 + (digits[i] - '0');
    return line;
}

static bool is_source(const char *s, size_t size)
{
    return size && ((s[0] == '<' && s[size - 1] == '>') || ends(s, size, ".py") || ends(s, size, ".pyx") ||
                    ends(s, size, ".pyc"));
}

/* ---- own or library ---- */

/* Modules of the standard library that are one file. Blanks stand around each word. */
static const char library_files[] =
    " "
    "__future__ _bootlocale _collections_abc _compression _py_abc _pydecimal _sitebuiltins _strptime "
    "_threading_local _weakrefset abc argparse ast base64 bisect bz2 codecs configparser contextlib "
    "contextvars copy copyreg csv dataclasses datetime decimal enum fnmatch fractions ftplib functools "
    "genericpath glob gzip hashlib heapq hmac inspect io ipaddress keyword linecache locale lzma "
    "mimetypes numbers opcode operator optparse os pathlib pickle pickletools pkgutil platform posixpath "
    "pprint queue random reprlib runpy selectors shelve shlex shutil signal socket socketserver "
    "sre_compile sre_parse ssl statistics string struct subprocess sysconfig tarfile tempfile textwrap "
    "threading timeit tokenize traceback tracemalloc types typing uuid warnings weakref zipfile ";

/* Files of TensorFlow and JAX: their tracers give no directory. */
static const char framework_files[] =
    " "
    "api api_util array array_methods atomic_function base_events compiler concrete_function constant_op "
    "context core data_adapter dataset_ops def_function dispatch error_handler execute func_graph "
    "function_context function_type_utils iterator_ops lax lax_numpy monitoring nest ops partial_eval "
    "pjit polymorphic_function profiler profiler_v2 pywrap_utils record_function script_ops "
    "summary_ops_v2 tensor_conversion_registry tensor_shape tensor_util traceback_util traceback_utils "
    "tracing_compilation tree_util util variable_utils xla_bridge ";

/*
 * Starts of paths that were shortened to what lies in a directory of packages. "datasets/" alone may be the user's, so
 * it is files of the package that count.
 */
static const char library_paths[] =
    " "
    "IPython/ PIL/ absl/ accelerate/ aiohttp/ albumentations/ apache_beam/ asyncio/ boto3/ botocore/ "
    "collections/ composer/ concurrent/futures/ ctypes/ cv2/ datasets/arrow_ datasets/dataset_dict.py "
    "datasets/features/ datasets/fingerprint.py datasets/formatting/ datasets/iterable_dataset.py "
    "datasets/table.py datasets/utils/py_utils.py deepspeed/ email/ encodings/ fairscale/ fastai/ flax/ "
    "fsspec/ grain/ h5py/ html/ http/ huggingface_hub/ imageio/ importlib/ ipykernel/ jax/ jaxlib/ "
    "joblib/ json/ keras/ kornia/ librosa/ lightning/ lightning_fabric/ litdata/ logging/ matplotlib/ "
    "monai/ multiprocessing/ numba/ numpy/ nvidia/dali/ optax/ orbax/ pandas/ polars/ pyarrow/ "
    "pytorch_lightning/ ray/ re/ requests/ s3fs/ safetensors/ scipy/ skimage/ sklearn/ soundfile.py spdl/ "
    "sqlite3/ streaming/base/ sympy/ tensorboard/ tensorflow/ tensorflow_datasets/ timm/ tokenizers/ "
    "torch/ torch_xla/ torchaudio/ torchdata/ torchmetrics/ torchtext/ torchvision/ tqdm/ transformers/ "
    "triton/ unittest/ urllib/ urllib3/ wandb/ webdataset/ xml/ zarr/ zipfile/ zoneinfo/ ";

static bool is_listed(const char *list, const char *file, size_t size)
{
    char word[40];
    while (size && file[size - 1] != '.')
        size--;
    if (size < 2 || size + 2 > sizeof word || memchr(file, ' ', size) || memchr(file, 0, size))
        return false;
    word[0] = ' ';
    memcpy(word + 1, file, size - 1);
    word[size] = ' ';
    word[size + 1] = 0;
    return strstr(list, word);
}

static bool is_library_path(const char *file, size_t size)
{
    for (const char *path = library_paths + 1; *path;) {
        const size_t n = strcspn(path, " ");
        if (size >= n && memcmp(file, path, n) == 0)
            return true;
        path += n + 1;
    }
    return false;
}

static bool is_word(const char *s, size_t size, const char *word)
{
    return size == strlen(word) && memcmp(s, word, size) == 0;
}

/* "site-packages", "dist-packages", "lib/python3.11", "Python311\Lib", "python311.zip". */
static bool is_library_directory(const char *part, size_t size, const char *before, size_t before_size)
{
    if (is_word(part, size, "site-packages") || is_word(part, size, "dist-packages"))
        return true;
    if (starts(part, size, "python") && size > 6 && is_digit(part[6]))
        return is_word(before, before_size, "lib") || is_word(before, before_size, "lib64") || ends(part, size, ".zip");
    return (is_word(part, size, "Lib") || is_word(part, size, "lib")) && starts(before, before_size, "Python");
}

static bool lies_in_library(const char *file, size_t size)
{
    const char *before = file;
    size_t before_size = 0, start = 0;
    for (size_t i = 0; i < size; i++) {
        if (!is_slash(file[i]))
            continue;
        if (is_library_directory(file + start, i - start, before, before_size))
            return true;
        before = file + start;
        before_size = i - start;
        start = i + 1;
    }
    return false;
}

static bool has_slash(const char *file, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (is_slash(file[i]))
            return true;
    return false;
}

bool stk__python_file_is_own(const char *file, size_t size)
{
    if (starts(file, size, "./"))
        return true;
    if (!size || file[0] == '<') /* generated, frozen; but code that was typed in is somebody's */
        return starts(file, size, "<stdin>") || starts(file, size, "<ipython-input");
    if (!has_slash(file, size))
        return !is_listed(library_files, file, size);
    return !lies_in_library(file, size) && !is_library_path(file, size);
}

/* ---- spellings ---- */

static void take(stk__python_frame *out, const char *file, size_t file_size, int64_t line, const char *function,
                 size_t function_size)
{
    *out = (stk__python_frame){
        .function = function,
        .function_size = function_size,
        .file = file,
        .file_size = file_size,
        .line = line,
        .own = is_source(file, file_size) && stk__python_file_is_own(file, file_size),
    };
}

/* "<built-in function len>", "<built-in method get of dict object at 0x7f>", "nn.Module: Linear_0" */
static bool parse_torch_c(const char *s, size_t size, stk__python_frame *out)
{
    static const char *const kinds[] = {"<built-in function ", "<built-in method ", "nn.Module: "};
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        if (!starts(s, size, kinds[i]))
            continue;
        const char *function = s + strlen(kinds[i]);
        size_t n = 0;
        while (function + n < s + size && function[n] != ' ' && function[n] != '>')
            n++;
        take(out, s, 0, 0, function, n);
        return true;
    }
    return false;
}

/* "dir/train.py(12): load" */
static bool parse_torch(const char *s, size_t size, stk__python_frame *out)
{
    for (size_t i = 1; i + 3 < size; i++) {
        if (s[i] != ')' || s[i + 1] != ':' || s[i + 2] != ' ')
            continue;
        const size_t digits = digits_before(s, i), open = i - digits;
        if (!digits || open < 2 || s[open - 1] != '(' || !is_source(s, open - 1))
            return false;
        take(out, s, open - 1, line_of(s + open, digits), s + i + 3, size - i - 3);
        return true;
    }
    return false;
}

/* "$train.py:8 load"; "$time sleep", "$<unknown> append": C functions and their modules. */
static bool parse_jax(const char *s, size_t size, stk__python_frame *out)
{
    size_t space = size;
    if (!size || s[0] != '$')
        return false;
    while (space > 1 && s[space - 1] != ' ')
        space--;
    if (space < 3 || space == size)
        return false;
    size_t file = space - 2, digits = digits_before(s + 1, file);
    int64_t line = 0;
    if (digits && digits + 1 < file && s[file - digits] == ':') {
        line = line_of(s + 1 + file - digits, digits);
        file -= digits + 1;
    }
    take(out, s + 1, file, line, s + space, size - space);
    out->own = out->own && line > 0 && !is_listed(framework_files, out->file, out->file_size);
    return true;
}

/* "load (dir/train.py:12)", "load (train.py)" */
static bool parse_spy(const char *s, size_t size, stk__python_frame *out)
{
    size_t open = size;
    if (size < 6 || s[size - 1] != ')')
        return false;
    while (open && s[open - 1] != '(')
        open--;
    if (open < 3 || s[open - 2] != ' ')
        return false;
    size_t file = size - 1 - open, digits = digits_before(s + open, file);
    int64_t line = 0;
    if (digits && digits < file && s[open + file - digits - 1] == ':') {
        line = line_of(s + open + file - digits, digits);
        file -= digits + 1;
    }
    if (!is_source(s + open, file))
        return false;
    take(out, s + open, file, line, s, open - 2);
    return true;
}

bool stk__python_frame_parse(const char *name, size_t size, stk__python_frame *out)
{
    return parse_jax(name, size, out) || parse_torch_c(name, size, out) || parse_torch(name, size, out) ||
           parse_spy(name, size, out);
}

/* ---- slices ---- */

stk__python_keys stk__python_keys_of(const stk__trace *t)
{
    return (stk__python_keys){
        .filename = stk__trace_find(t, "filename", strlen("filename")),
        .line = stk__trace_find(t, "line", strlen("line")),
    };
}

bool stk__python_frame_of(const stk__trace *t, const stk__python_keys *keys, size_t slice, stk__python_frame *out)
{
    size_t size, file_size = 0;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size), *file = NULL;
    int64_t line = 0;
    if (stk__python_frame_parse(name, size, out))
        return true;
    size_t row = t->slices.args[slice];
    if (!row || keys->filename == STK__NONE || !size)
        return false;
    for (; row < t->args.count; row++) {
        const unsigned type = t->args.type[row] & STK__ARG_TYPE;
        if (t->args.key[row] == keys->filename && type == STK__ARG_STRING)
            file = stk__trace_text(t, (stk__string)t->args.value[row].string, &file_size);
        else if (t->args.key[row] == keys->line && type == STK__ARG_INT)
            line = t->args.value[row].integer;
        if (t->args.type[row] & STK__ARG_LAST)
            break;
    }
    if (!file || !is_source(file, file_size))
        return false;
    take(out, file, file_size, line > 0 ? line : 0, name, size);
    return true;
}

stk__string stk__python_file_of(const stk__trace *t, const stk__python_keys *keys, size_t slice, int64_t *out_line)
{
    stk__python_frame p;
    size_t size;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size);
    *out_line = 0;
    if (keys->filename == STK__NONE || stk__python_frame_parse(name, size, &p) ||
        !stk__python_frame_of(t, keys, slice, &p))
        return 0;
    *out_line = p.line;
    for (size_t row = t->slices.args[slice]; row < t->args.count; row++) {
        if (t->args.key[row] == keys->filename)
            return (stk__string)t->args.value[row].string;
        if (t->args.type[row] & STK__ARG_LAST)
            break;
    }
    return 0;
}
