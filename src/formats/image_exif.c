/* The orientation in EXIF data. */
#include "formats/image_impl.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY_SIZE = 12 };

static uint32_t get16(const uint8_t *p, bool big)
{
    return big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t get32(const uint8_t *p, bool big)
{
    return big ? get16(p, true) << 16 | get16(p + 2, true) : get16(p + 2, false) << 16 | get16(p, false);
}

int32_t stk__exif_orientation(const uint8_t *tiff, size_t size)
{
    if (size < 8)
        return 1;
    const bool big = tiff[0] == 'M';
    if ((tiff[0] != 'M' && tiff[0] != 'I') || tiff[1] != tiff[0] || get16(tiff + 2, big) != 42)
        return 1;
    const size_t directory = get32(tiff + 4, big);
    if (directory > size || size - directory < 2)
        return 1;
    const size_t room = (size - directory - 2) / ENTRY_SIZE;
    size_t count = get16(tiff + directory, big);
    if (count > room)
        count = room;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = tiff + directory + 2 + i * ENTRY_SIZE;
        if (get16(entry, big) != TAG_ORIENTATION)
            continue;
        if (get16(entry + 2, big) != TYPE_SHORT || get32(entry + 4, big) != 1)
            return 1;
        const uint32_t value = get16(entry + 8, big);
        return value >= 1 && value <= 8 ? (int32_t)value : 1;
    }
    return 1;
}
