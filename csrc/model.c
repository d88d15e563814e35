#include "model.h"

#include <string.h>

#include "text.h"

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static int is_separator(char c) { return c == '-' || c == '_' || c == '.' || c == ' '; }

static glpcore_text without_organisation(glpcore_text name) {
    size_t i;
    for (i = name.size; i > 0; i--) {
        if (name.data[i - 1] == '/') {
            name.data += i;
            name.size -= i;
            break;
        }
    }
    return name;
}

/* The next character that counts, or -1 at the end: a NUL is a character like others. */
static int next(glpcore_text *name) {
    while (name->size > 0) {
        const char c = name->data[0];
        name->data++;
        name->size--;
        if (!is_separator(c)) return (unsigned char)lower(c);
    }
    return -1;
}

int glpcore_same_base(glpcore_text a, glpcore_text b) {
    a = without_organisation(a);
    b = without_organisation(b);
    for (;;) {
        const int x = next(&a), y = next(&b);
        if (x != y) return 0;
        if (x < 0) return 1;
    }
}

int glpcore_base_is_empty(glpcore_text name) {
    name = without_organisation(name);
    return next(&name) < 0;
}

int glpcore_is_commit(glpcore_text revision) {
    size_t i;
    if (revision.size != 40) return 0;
    for (i = 0; i < 40; i++) {
        const char c = lower(revision.data[i]);
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return 0;
    }
    return 1;
}

int glpcore_same_commit(glpcore_text a, glpcore_text b) {
    size_t i;
    for (i = 0; i < 40; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) return 0;
    }
    return 1;
}

/* GGUF architecture first, then the Hugging Face model types that convert to it. An architecture
 * that several model types share (llama) cannot tell them apart, and does not try. */
static const char *const architectures[] = {
    "llama llama mistral mixtral llama3 smollm",
    "llama4 llama4 llama4_text",
    "mistral3 mistral3 ministral3",
    "deepseek deepseek",
    "deepseek2 deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2",
    "deepseek4 deepseek_v4",
    "qwen qwen",
    "qwen2 qwen2",
    "qwen2moe qwen2_moe",
    "qwen2vl qwen2_vl qwen2_5_vl",
    "qwen3 qwen3",
    "qwen3moe qwen3_moe",
    "qwen3vl qwen3_vl",
    "qwen3next qwen3_next",
    "qwen35 qwen3_5 qwen3_5_text",
    "qwen35moe qwen3_5_moe qwen3_5_moe_text",
    "gemma gemma",
    "gemma2 gemma2",
    "gemma3 gemma3 gemma3_text",
    "gemma3n gemma3n gemma3n_text",
    "gemma4 gemma4 gemma4_text",
    "gpt2 gpt2",
    "gptj gptj",
    "gptneox gpt_neox",
    "gpt-oss gpt_oss",
    "phi2 phi",
    "phi3 phi3 phi4",
    "phimoe phimoe",
    "falcon falcon refinedwebmodel",
    "falcon-h1 falcon_h1",
    "mpt mpt",
    "bloom bloom",
    "starcoder gpt_bigcode",
    "starcoder2 starcoder2",
    "stablelm stablelm stablelm_epoch",
    "olmo olmo",
    "olmo2 olmo2 olmo3",
    "olmoe olmoe",
    "command-r cohere",
    "cohere2 cohere2",
    "granite granite",
    "granitemoe granitemoe",
    "granitehybrid granitemoehybrid",
    /* The same model type, where all of its layers are attention. */
    "granite granitemoehybrid",
    "granitemoe granitemoehybrid",
    "internlm2 internlm2",
    "minicpm minicpm",
    "minicpm3 minicpm3",
    "chatglm chatglm",
    "glm4 glm4",
    "glm4moe glm4_moe",
    "exaone exaone",
    "exaone4 exaone4",
    "smollm3 smollm3",
    "nemotron nemotron",
    "nemotron_h nemotron_h",
    "ernie4_5 ernie4_5",
    "hunyuan-dense hunyuan_v1_dense",
    "hunyuan-moe hunyuan_v1_moe",
    "lfm2 lfm2",
    "mamba mamba",
    "mamba2 mamba2",
    "jamba jamba",
    "rwkv6 rwkv6",
    "rwkv7 rwkv7",
    "baichuan baichuan",
    "orion orion",
    "plamo plamo",
    "arctic arctic",
    "dbrx dbrx",
    "grok grok-1",
    "bitnet bitnet",
    "openelm openelm",
    "seed_oss seed_oss",
    "apertus apertus",
    "arcee arcee",
    "dots1 dots1",
    "bailingmoe bailing_moe",
    "minimax-m2 minimax_m2",
};

static int same_word(glpcore_text name, const char *word, size_t size) {
    size_t i;
    if (name.size != size) return 0;
    for (i = 0; i < size; i++) {
        if (lower(name.data[i]) != word[i]) return 0;
    }
    return 1;
}

/* Whether a row of the table has the name. */
static int row_has(const char *word, glpcore_text name) {
    for (;;) {
        const size_t size = strcspn(word, " ");
        if (same_word(name, word, size)) return 1;
        if (word[size] == '\0') return 0;
        word += size + 1;
    }
}

glpcore_arch_match glpcore_compare_arch(glpcore_text a, glpcore_text b) {
    int knows_a = 0, knows_b = 0;
    size_t i;
    for (i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        const int has_a = row_has(architectures[i], a), has_b = row_has(architectures[i], b);
        if (has_a && has_b) return GLPCORE_ARCH_SAME;
        knows_a |= has_a;
        knows_b |= has_b;
    }
    if (knows_a && knows_b) return GLPCORE_ARCH_OTHER;
    return glpcore_same_base(a, b) ? GLPCORE_ARCH_SAME : GLPCORE_ARCH_UNSURE;
}
