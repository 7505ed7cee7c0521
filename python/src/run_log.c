/* Messages of the engine, kept in C until Python asks: it logs with locks held, where the GIL must not be taken. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

void stkpy_log_init(stkpy_log *log)
{
    pthread_mutex_init(&log->lock, NULL);
}

void stkpy_log_clear(stkpy_log *log)
{
    for (int i = 0; i < log->count; i++)
        free(log->items[i].text);
    pthread_mutex_destroy(&log->lock);
}

void stkpy_log_add(void *arg, stk_log_level level, const char *text)
{
    stkpy_log *log = arg;
    const size_t size = strlen(text) + 1;
    pthread_mutex_lock(&log->lock);
    char *copy = log->count < STKPY_MESSAGES ? malloc(size) : NULL;
    if (copy) {
        memcpy(copy, text, size);
        log->items[log->count++] = (stkpy_message){level, copy};
    } else {
        log->lost++;
    }
    pthread_mutex_unlock(&log->lock);
}

static int append(PyObject *list, stk_log_level level, PyObject *text)
{
    PyObject *pair = text ? Py_BuildValue("(sN)", level == STK_LOG_WARNING ? "warning" : "info", text) : NULL;
    const int failed = !pair || PyList_Append(list, pair) < 0;
    Py_XDECREF(pair);
    return failed ? -1 : 0;
}

bool stkpy_log_any(stkpy_log *log)
{
    pthread_mutex_lock(&log->lock);
    const bool any = log->count > 0;
    pthread_mutex_unlock(&log->lock);
    return any;
}

PyObject *stkpy_log_take(stkpy_log *log)
{
    stkpy_message items[STKPY_MESSAGES];
    pthread_mutex_lock(&log->lock);
    const int count = log->count;
    const long lost = log->lost;
    memcpy(items, log->items, sizeof *items * (size_t)count);
    log->count = 0;
    log->lost = 0;
    pthread_mutex_unlock(&log->lock);
    PyObject *list = PyList_New(0);
    for (int i = 0; i < count; i++) {
        const char *text = items[i].text;
        if (list && append(list, items[i].level, PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")) < 0)
            Py_CLEAR(list);
        free(items[i].text);
    }
    if (list && lost && append(list, STK_LOG_INFO, PyUnicode_FromFormat("%ld more messages were left out", lost)) < 0)
        Py_CLEAR(list);
    return list;
}
