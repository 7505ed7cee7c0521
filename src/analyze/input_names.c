/* Names split into words, and lists of words. */
#include "analyze/input_names.h"

#include <string.h>

#include "analyze/select.h"

#include "base/banned.h"

enum { MAX_NAME = 64, MAX_WORDS = 8, MAX_WORD = 24 };

/* Blanks stand around each word. */
static const char input_words[] =
    " "
    "data dataset datasets dataload dataloader dataloading loader loaders fetch fetches fetching fetcher prefetch "
    "prefetching batch batches batching minibatch minibatches getbatch nextbatch loadbatch fetchbatch getdata loaddata "
    "input inputs load loads loading read reads reading reader decode decodes decoding collate collator ingest "
    "getitem augment augments augmentation augmentations preprocess preprocessing tokenize tokenizing datapipe "
    "next nextdata waitdata datawait waitfordata datafetch dataloadingtime datatime inputwait waitinput inputfetch ";

/* "batch" and "load" are part of many names: with one of these words they mean the model or its training. */
static const char veto_words[] =
    " "
    "model forward fwd step train training trainer epoch fit state weight weights param params parameter parameters "
    "norm batchnorm layernorm normalization parallel dataparallel ddp fsdp zero embed embedding embeddings attention "
    "attn layer layers conv linear matmul mm bmm gemm fusion kernel variable variables balance logits test "
    "scheduler schedule lr gc collect sleep profiler compile process run compute update apply predict infer inference "
    "call handle generate ";

/* What loops do beside: whatever else the name says, this is no loading of data. */
static const char other_words[] =
    " "
    "loss losses backward bwd backprop optim optimizer checkpoint checkpoints ckpt save saves saving grad grads "
    "gradient gradients reduce allreduce allgather broadcast barrier scatter log logs logger logging print metric "
    "metrics accuracy score eval evaluate evaluation validate validation summary summarize wandb tensorboard plot "
    "report write writes writing writer dump dumps upload sync synchronize ";

static bool is_listed(const char *list, const char *word, size_t size)
{
    char key[MAX_WORD + 3];
    if (!size || size > MAX_WORD)
        return false;
    key[0] = ' ';
    memcpy(key + 1, word, size);
    key[size + 1] = ' ';
    key[size + 2] = 0;
    return strstr(list, key);
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
    return is_upper(c) || (c >= 'a' && c <= 'z');
}

/* The next word from *at on, in small letters: "getBatch_2" has "get" and "batch". Returns its length, 0 at the end. */
static size_t next_word(const char *name, size_t size, size_t *at, char *word)
{
    size_t n = 0, i = *at;
    while (i < size && !is_letter(name[i]))
        i++;
    for (; i < size && is_letter(name[i]); i++) {
        /* A capital starts a word, but the last of several ("HDFReader": "hdf", "reader"). */
        const bool after_small = n && !is_upper(name[i - 1]) && is_upper(name[i]);
        const bool last_capital =
            n && is_upper(name[i]) && i + 1 < size && is_letter(name[i + 1]) && !is_upper(name[i + 1]);
        if (after_small || last_capital)
            break;
        if (n < MAX_WORD)
            word[n] = (char)(is_upper(name[i]) ? name[i] + ('a' - 'A') : name[i]);
        n++;
    }
    *at = i;
    return n;
}

stk__name_says stk__name_says_of(const char *name, size_t size)
{
    char word[MAX_WORD];
    size_t at = 0, n, words = 0;
    bool input = false, vetoed = false;
    if (size > MAX_NAME)
        return STK__SAYS_NOTHING;
    for (size_t i = 0; i + 1 < size; i++)
        if (name[i] == ':' && name[i + 1] == ':')
            return STK__SAYS_NOTHING;
    while ((n = next_word(name, size, &at, word)) > 0) {
        if (++words > MAX_WORDS)
            return STK__SAYS_NOTHING;
        if (is_listed(other_words, word, n))
            return STK__SAYS_OTHER;
        vetoed = vetoed || is_listed(veto_words, word, n);
        input = input || is_listed(input_words, word, n);
    }
    return input && !vetoed ? STK__SAYS_INPUT : STK__SAYS_NOTHING;
}

/* ---- calls ---- */

static bool has_one_of(const char *s, size_t size, const char *const *parts)
{
    for (; *parts; parts++)
        if (stk__contains(s, size, *parts))
            return true;
    return false;
}

/* Files whose every function is about reading data. */
static const char *const input_files[] = {"utils/data/",
                                          "python/data/",
                                          "PIL/",
                                          "h5py/",
                                          "zarr/",
                                          "webdataset/",
                                          "datasets/",
                                          "pyarrow/",
                                          "torchdata/",
                                          "litdata/",
                                          "streaming/base/",
                                          "fsspec/",
                                          "s3fs/",
                                          "botocore/",
                                          "gcsfs/",
                                          "requests/",
                                          "urllib3/",
                                          "urllib/",
                                          "http/client.py",
                                          "tarfile.py",
                                          "zipfile",
                                          "gzip.py",
                                          "bz2.py",
                                          "lzma.py",
                                          "npyio",
                                          "format.py",
                                          "torchvision/io",
                                          "torchvision/transforms",
                                          "torchvision/datasets",
                                          "albumentations/",
                                          "imageio/",
                                          "cv2/",
                                          "librosa/",
                                          "soundfile",
                                          "torchaudio/",
                                          "pandas/io/",
                                          "nvidia/dali/",
                                          "spdl/",
                                          "grain/",
                                          "tensorflow_datasets/",
                                          "ffcv/",
                                          NULL};

/* Functions that read, unpack or decode, whoever calls them. */
static const char input_calls[] =
    " "
    "read readline readlines readinto pread recv recv_into recv_bytes decompress inflate imread imdecode decode_jpeg "
    "decode_png decode_image fromfile frombuffer memmap loadtxt genfromtxt __getitem__ __getitems__ collate "
    "default_collate collate_fn default_convert read_csv read_parquet read_image open_memmap read_direct fetch ";

static const char queue_calls[] = " get get_nowait popleft ";
static const char *const queue_files[] = {"queue.py", "queues.py", "Queue", "_queue", NULL};

/* Functions that write, print, or wait for the device. */
static const char other_calls[] =
    " "
    "write writelines flush fsync print dump dumps save savez savefig send sendall send_bytes synchronize item "
    "block_until_ready add_scalar add_image add_histogram _save _write_file ";

static const char *const other_files[] = {
    "logging/",      "wandb/",   "tensorboard/",           "matplotlib/", "tqdm/", "safetensors/",
    "torchmetrics/", "sklearn/", "torch/serialization.py", NULL};

stk__name_says stk__call_says(const char *function, size_t function_size, const char *file, size_t file_size)
{
    char word[40];
    if (function_size && function_size + 3 < sizeof word && !memchr(function, ' ', function_size)) {
        word[0] = ' ';
        memcpy(word + 1, function, function_size);
        word[function_size + 1] = ' ';
        word[function_size + 2] = 0;
        if (strstr(other_calls, word))
            return STK__SAYS_OTHER;
        if (strstr(input_calls, word))
            return STK__SAYS_INPUT;
        if (strstr(queue_calls, word) && has_one_of(file, file_size, queue_files))
            return STK__SAYS_INPUT;
    }
    if (has_one_of(file, file_size, other_files))
        return STK__SAYS_OTHER;
    return has_one_of(file, file_size, input_files) ? STK__SAYS_INPUT : STK__SAYS_NOTHING;
}
