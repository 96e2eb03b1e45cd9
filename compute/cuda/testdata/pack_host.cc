// pack_host KERNEL ROWS IN ROWBYTES GROUP RECORDS BYTES IN_FILE SCALES_FILE OUT_FILE runs a kernel of pack.cu, thread
// by thread.
#include "pack.cu"

static std::vector<u8> readAll(const char *path) {
    std::vector<u8> all;
    FILE *f = fopen(path, "rb");
    for (int c; f && (c = getc(f)) != EOF;)
        all.push_back((u8)c);
    if (f)
        fclose(f);
    return all;
}

int main(int, char **arg) {
    std::vector<u8> from = readAll(arg[8]), scales = readAll(arg[9]), to(atoi(arg[7]), 0xaa);
    PackArgs a = {to.data(), from.data(), scales.empty() ? nullptr : (const float *)scales.data(), atoi(arg[4])};
    a.rows = atoi(arg[2]), a.in = atoi(arg[3]), a.group = atoi(arg[5]), a.records = atoi(arg[6]);
    void (*kernel)(const PackArgs) = nullptr;
#define NAMED(name)                                                                                                    \
    if (std::string("pack_") + #name == arg[1])                                                                        \
        kernel = pack_##name;
#include "names.h"
    if (!kernel)
        return 2;
    for (blockIdx.x = 0; blockIdx.x < (a.records + 7) / 8; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < 256; threadIdx.x++)
            kernel(a);
    FILE *f = fopen(arg[10], "wb");
    bool done = f && fwrite(to.data(), 1, to.size(), f) == to.size() && fclose(f) == 0;
    return done ? 0 : 3;
}
