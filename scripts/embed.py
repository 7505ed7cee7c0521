#!/usr/bin/env python3
"""Writes a file as C source, an array of bytes and its size: embed.py INPUT SYMBOL > out.c"""
import os
import sys

WIDTH = 32  # bytes of one line


# Octal escapes of three digits end by themselves; plain characters keep the file small.
TABLE = [chr(c) if 0x20 <= c < 0x7f and chr(c) not in '"\\?' else "\\%03o" % c for c in range(256)]


def literal(data):
    return '"%s"' % "".join(TABLE[c] for c in data)


def main():
    path, symbol = sys.argv[1:]
    with open(path, "rb") as f:
        data = f.read()
    if not data:
        sys.exit(f"{path}: empty")
    out = sys.stdout
    out.write(f"/* Made by scripts/embed.py of {os.path.basename(path)}: {len(data)} bytes. */\n")
    out.write("#include <stddef.h>\n\n")
    # A literal compiles ten times faster than a list of numbers; that it is long is no trouble to gcc and clang.
    out.write('#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n')
    out.write(f"extern const unsigned char {symbol}[];\nextern const size_t {symbol}_size;\n\n")
    out.write(f"_Alignas(64) const unsigned char {symbol}[{len(data)}] =\n")
    pieces = [literal(data[at:at + WIDTH]) for at in range(0, len(data), WIDTH)]
    out.write("    " + "\n    ".join(pieces) + ";\n")
    out.write(f"const size_t {symbol}_size = {len(data)};\n")


if __name__ == "__main__":
    main()
