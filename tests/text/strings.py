"""Hand-picked strings for the tokenizer tests, and code points on which two libraries differ."""


def code_points(ranges: str) -> frozenset[int]:
    """Read "5C8-5C9 7FD" as the set {0x5C8, 0x5C9, 0x7FD}."""
    points: set[int] = set()
    for item in ranges.split():
        first, _, last = item.partition("-")
        points.update(range(int(first, 16), int(last or first, 16) + 1))
    return frozenset(points)


# The `tokenizers` library (0.23) knows the categories of Unicode 8 (2015), decompositions older
# than Unicode 13, and the small letters of Unicode 17. Python's `unicodedata` is at 14 in Python
# 3.11 and moves on with every version. So they cannot agree on the characters below: rare scripts,
# added or reclassified since. Found by trying every code point with the tables of Unicode 14, 15,
# 15.1 and 18; `test_every_code_point` allows these and no others.

# Accents (Mn) since Unicode 8: we strip them, the library keeps them.
NEW_ACCENTS = code_points(
    """
    5C8-5C9 7FD 897-89F 8CA-8E1 9FE AFA-AFF B53-B55 C04 C3C D00 D3B-D3C D81 EBA ECE 180F
    1885-1886 1ABF-1AF0 1DF6-1DFB A82C A8C5 A8FF A9BD 10D24-10D27 10D69-10D6D 10EAB-10EAC
    10ECB-10ECF 10EF0-10EFF 10F46-10F50 10F82-10F85 11070 11073-11074 110C2 111C9 111CF 1123E
    11241 1133B 113BB-113C0 113CE 113D0 113D2 113E1-113E2 11438-1143F 11442-11444 11446 1145E
    1182F-11837 11839-1183A 1193B-1193C 1193E 11943 119D4-119D7 119DA-119DB 119E0 11A01-11A0A
    11A33-11A38 11A3B-11A3E 11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A99 11B60
    11B62-11B64 11B66 11C30-11C36 11C38-11C3D 11C3F 11C92-11CA7 11CAA-11CB0 11CB2-11CB3
    11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D90-11D91 11D95 11D97 11DF0
    11EF3-11EF4 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13440 13447-13455 1611E-16129
    1612D-1612F 16F4F 16FE4 1CF00-1CF2D 1CF30-1CF46 1D127-1D128 1D25B-1D25C 1E000-1E006
    1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF
    1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E944-1E94A
    """
)

# Punctuation since Unicode 8: a word of its own for us, part of a word for the library. The other
# way round for 166D, which Unicode 12 made a symbol.
NEW_PUNCTUATION = code_points(
    """
    61D 9FD A76 C77 C84 166D 1B4E-1B4F 1B7D-1B7F 2E43-2E4F 2E52-2E5D 2E60-2E63 10D6E 10EAD 10ED0
    10F55-10F59 10F86-10F89 113D4-113D5 113D7-113D8 1144B-1144F 1145A-1145B 1145D 11660-1166C
    116B9 1183B 11944-11946 119E2 11A3F-11A46 11A9A-11A9C 11A9E-11AA2 11B00-11B09 11BE1
    11C41-11C45 11C70-11C71 11EF7-11EF8 11F43-11F4F 11FFF 12FF1-12FF2 16D6D-16D6F 16E97-16E9A
    16FE2 1E5FF 1E95E-1E95F
    """
)

# Format characters (Cf) since Unicode 8: we drop them, the library keeps them.
NEW_FORMAT = code_points("890-891 8E2 110CD 13430-1343F")

# Letters and vowel signs that NFD takes apart since Unicode 13 (11938) or 16, and 1734, an accent
# until Unicode 14.
NEW_DECOMPOSITION = code_points(
    """
    1734 105C9 105E4 11383 11385 1138E 11391 113C5 113C7-113C8 11938 16D68-16D6A
    """
)

# Equal or not by the version of Python: capitals whose small letter a Python below Unicode 16 or 17
# does not know, and 1171E, an accent until Unicode 16.
PYTHON_DEPENDENT = code_points(
    "1C89 A7CB-A7CC A7CE A7D2 A7D4 A7DA A7DC 10D50-10D65 1171E 16EA0-16EB8"
)

DIFFERENT = NEW_ACCENTS | NEW_PUNCTUATION | NEW_FORMAT | NEW_DECOMPOSITION | PYTHON_DEPENDENT

# Spacing marks (Mc) with a combining class, and what NFD takes apart into such: alone they are
# equal. Beside another mark, NFD may swap the two; we take characters apart one by one, and never
# swap. Beside an accent (Mn), which is dropped, an offset moves; beside another of these, ids move.
# It takes Balinese, Javanese, musical notes or the like, typed in an unusual order.
REORDERED = code_points(
    """
    1715 1734 1B44 1BAA 1BF2-1BF3 302E-302F A953 A9C0 111C0 11235 1134D 113CF 116B6 1193D 11F41
    16FF0-16FF1 1D15E-1D166 1D16D-1D172 1D250-1D252 1D1BB-1D1C0 1D25F 1D280-1D281
    """
)

HAND_PICKED = [
    # plain
    "",
    " ",
    " \t\n\r\n ",
    "The man went to the store.",
    "the\tman\nbought a\r\ngallon of milk",
    "penguins are flightless birds",
    "unaffable, unbelievable, unbreakable",
    "2,500M words; 3.14159 $5 + 7 = 12 <a href='x'>~^`|</a>",
    "...!?!?,,,---___***((()))",
    "don't can't it's 'quoted' \"double\"",
    "co-operate/and_or\\not@home#1",
    "## ##a a## #",
    # special tokens written in the text
    "the [MASK] barked",
    "[MASK]",
    "[CLS] twice [SEP][SEP] [PAD]x[UNK]",
    "a[MASK]b[mask]c[ MASK ]d[MASK",
    "[[MASK]]",
    # accents, composed and not, and marks alone
    "Crème Brûlée, naïve café, Ångström, Łódź, Đà Nẵng",
    "e\u0301 a\u0308\u0323 o\u0323\u0308 \u1e69 s\u0323\u0307 \u212b",
    "\u0301",
    "\u0301\u0302\u0303 a",
    "a \u0301 b\u0301\u0301\u0301",
    "\u0345\u0344 \u20dd a\u20dd \u0488",
    # letters whose case is not simple
    "İstanbul Iıİi DİYARBAKIR",
    "Straße STRASSE ẞ",
    "ﬁne ﬂow ﬃ ﬆ Ǆ ǅ ǆ",
    "ΟΔΥΣΣΕΥΣ Σ ς ΑΣ",
    "ᲐᲑᲒ აბგ Ⴀ ꭰ Ꭰ",
    "𝐁𝐄𝐑𝐓 𝕳𝖊𝖑𝖑𝖔 𝟘𝟙 𝒜 Ⅷ ⅷ Ⓐ ⓐ",
    "𐐀𐐨 K Å Ω ſ ª º ²",
    # scripts
    "東京は日本の首都です。",
    "中文,没有空格",
    "日本 ひらがな カタカナ ｶﾀｶﾅ がぎぐ か\u3099 ー々〆",
    "\u3400\u4dbf \U00020000\U0002a6df \U0002b81f \U0002b820 \U0002b920 \U0002ceaf \U00030000",
    "\uf900\ufa0e \U0002f800\U0002fa1d 豈x更",
    "어제 늦게 잤니? 피곤해 보이네",
    "한국어 \u1112\u1161\u11ab \u1112\u1161 \u11ab \u3147\u314f ㅋㅋㅋ ﾡ",
    "مرحبا بالعالم، كِتَاب ١٢٣ ﷺ ﻻ",
    "नमस्ते दुनिया। क्षत्रिय",
    "สวัสดีชาวโลก ກໍາ བོད་སྐད། မြန်မာ",
    "Привет, МИР! Ёлка й и\u0306",
    "שָׁלוֹם עולם",
    "অসমীয়া தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල ኢትዮጵያ",
    # emoji
    "😀 😀😀 :-) <3",
    "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈",
    "👍🏻👍🏿 🏽",
    "🇰🇷🇩🇪 🇺 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "❤\ufe0f ❤\ufe0e ☎️ 1\ufe0f\u20e3 #\ufe0f\u20e3",
    # invisible characters
    "a\u200bb \u200b \ufeffstart so\u00adft zero\u200cwidth\u200djoin\u2060er",
    "nul\x00inside \x00 bell\x07 del\x7f \x1b[31m \x85 \x0b\x0c \x1c\x1d\x1e\x1f",
    "line\u2028para\u2029end nb\u00a0sp \u3000wide\u3000 \u2003em \u202fn \u1680 \u205f \u180e",
    "\u202eright to left\u202c \u2066iso\u2069 \u061c",
    "\ufffd bad \ufffdbyte\ufffd \ue000 \U000f0000 \U0010ffff \ufffe \uffff \u0378 \U0001fc00",
    # long words
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "x" * 100 + " " + "y" * 101 + " z",
    "é" * 100,
    "e\u0301" * 100,
    "한" * 33 + " " + "한" * 34,
    "a\u200b" * 100 + "\u0301" * 50,
    "東" * 150,
    "." * 150,
    "the" * 40,
]
