"""What is a token in which language. All expected tokens are written by hand."""

import pickle
import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers.unicode import UnicodeTokenizer

TOKENIZER, LOWERCASE = UnicodeTokenizer(), UnicodeTokenizer(lowercase=True)
SCRIPTS = {
    "English": ('"Don\'t!" she said.', '" Don\'t ! " she said .'),
    "German": ("Die Straße (groß) heißt „Äpfel“.", "Die Straße ( groß ) heißt „ Äpfel “ ."),
    "French": ("L'été, où est-ce que tu l’aimes?", "L'été , où est - ce que tu l’aimes ?"),
    "Spanish": ("¿Qué? ¡Sí, señor!", "¿ Qué ? ¡ Sí , señor !"),
    "Catalan": ("És una col·lega.", "És una col·lega ."),
    "Vietnamese": ("Tiếng Việt rất đẹp.", "Tiếng Việt rất đẹp ."),
    "Greek": ("Τι κάνεις; Καλά, ευχαριστώ.", "Τι κάνεις ; Καλά , ευχαριστώ ."),
    "Russian": ("Привет, как дела? «Ёлка» — да!", "Привет , как дела ? « Ёлка » — да !"),
    "Arabic": ("مَرْحَبًا، كيف حالك؟", "مَرْحَبًا ، كيف حالك ؟"),
    "Persian": ("می\u200cخواهم بروم.", "می\u200cخواهم بروم ."),
    "Urdu": ("آپ کیسے ہیں؟ ٹھیک ہوں۔", "آپ کیسے ہیں ؟ ٹھیک ہوں ۔"),
    "Hebrew": ('שָׁלוֹם, צה"ל בית־ספר!', 'שָׁלוֹם , צה"ל בית ־ ספר !'),
    "Hindi": ("नमस्ते, आप कैसे हैं? मैं ठीक हूँ।", "नमस्ते , आप कैसे हैं ? मैं ठीक हूँ ।"),
    "Marathi": ("र\u094d\u200dय आणि क\u094d\u200dष।", "र\u094d\u200dय आणि क\u094d\u200dष ।"),
    "Bengali": ("আপনি কেমন আছেন? ভালো।", "আপনি কেমন আছেন ? ভালো ।"),
    "Tamil": ("வணக்கம், எப்படி இருக்கிறீர்கள்?", "வணக்கம் , எப்படி இருக்கிறீர்கள் ?"),
    "Malayalam": ("അവൻ വന്നു, അവന\u0d4d\u200d.", "അവൻ വന്നു , അവന\u0d4d\u200d ."),
    "Sinhala": ("ශ්\u200dරී ලංකාව.", "ශ්\u200dරී ලංකාව ."),
    "Thai": ("สวัสดีน้ำ", "ส วั ส ดี น้ำ"),
    "Lao": ("ສະບາຍດີ", "ສ ະ ບ າ ຍ ດີ"),
    "Khmer": ("ខ្មែរសួស្តី។", "ខ្មែ រ សួ ស្តី ។"),
    "Burmese": ("မြန်မာစာ။", "မြ န် မာ စာ ။"),
    "Tibetan": ("བཀྲ་ཤིས་བདེ་ལེགས།", "བཀྲ་ ཤིས་ བདེ་ ལེགས །"),
    "Chinese": ("你好，世界！他说：“好。”", "你 好 ， 世 界 ！ 他 说 ： “ 好 。 ”"),
    "Japanese": ("東京タワーは、３３３ｍです。", "東 京 タ ワ ー は 、 ３３３ｍ で す 。"),
    "Korean": ("안녕하세요, 잘 지내요? 네!", "안녕하세요 , 잘 지내요 ? 네 !"),
    "Armenian": ("Ինչպե՞ս ես։ Լավ, շնորհակալ եմ։", "Ինչպե՞ս ես ։ Լավ , շնորհակալ եմ ։"),
    "Georgian": ("გამარჯობა, როგორ ხარ?", "გამარჯობა , როგორ ხარ ?"),
    "Amharic": ("ሰላም፣ እንዴት ነህ? ደህና።", "ሰላም ፣ እንዴት ነህ ? ደህና ።"),
    "Mongolian": ("ᠮᠣᠩᠭᠣᠯ᠎ᠠ᠃", "ᠮᠣᠩᠭᠣᠯ᠎ᠠ ᠃"),
    "Cherokee": ("ᎣᏏᏲ, ᏙᎯᏧ?", "ᎣᏏᏲ , ᏙᎯᏧ ?"),
    "Yoruba": ("Ẹ káàárọ̀, ṣé dáadáa ni?", "Ẹ káàárọ̀ , ṣé dáadáa ni ?"),
    "emoji": (
        "Hi 👍🏽 👩\u200d👩\u200d👧 🇩🇪 🇫🇷 ❤\ufe0f 3\ufe0f\u20e3!",
        "Hi 👍🏽 👩\u200d👩\u200d👧 🇩🇪 🇫🇷 ❤\ufe0f 3\ufe0f\u20e3 !",
    ),
    "numbers": ("3.14, 1,000 or 10:30? 5% of $20!", "3.14 , 1,000 or 10:30 ? 5 % of $ 20 !"),
    "Arabic numbers": ("٣٫١٤ و ١٬٠٠٠", "٣٫١٤ و ١٬٠٠٠"),
}
ENCODED = [
    ("mother-in-law", "mother - in - law"),
    ("rock'n'roll 'tis dogs'", "rock'n'roll ' tis dogs '"),
    ("rock’n’roll ’tis dogs’ l’été don\u200b’t", "rock’n’roll ’ tis dogs ’ l’été don’t"),
    ("MP3 2nd m² 3,x v1.2.3 e.g. 3.It 1,2.", "MP3 2nd m² 3 , x v1.2.3 e . g . 3 . It 1,2 ."),
    ("wait...what?! --no", "wait . . . what ? ! - - no"),
    ("a_b #tag @you x@y.org <eos>", "a _ b # tag @ you x @ y . org < eos >"),
    ("so\u00adft\u200bly Auf\u200clage a\x00b \ufeff \u200e", "softly Auflage ab"),
    ("a\u200d \u200d👍\u200d 👍\u200d👍 x\U000e0067", "a 👍 👍\u200d👍 x"),
    (
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 🇩🇪🇫🇷🇮",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 🇩🇪 🇫🇷 🇮",
    ),
    (
        "See https://t.co/a_b?c=1, (www.é.org/)! www. x://y http://",
        "See https://t.co/a_b?c=1 , ( www.é.org/ ) ! www . x : / / y http : / /",
    ),
    ("13\ufe0f\u20e3", "1 3\ufe0f\u20e3"),
    ("\ud800x\udfff \ufffe \ue000 +\u0338=", "x \ue000 +\u0338 ="),
    ("e\u0301 a\u200b\u0301 \u1112\u1161\u11ab ｶﾞ か\u3099", "é á 한 ｶﾞ が"),
    ("我用Python3写ABC的ไทยx", "我 用 Python3 写 ABC 的 ไ ท ย x"),
    ("\u0600١٢ ﴾ \u06dd", "\u0600 ١٢ ﴾ \u06dd"),
    ("", ""),
]
ALPHABET = (
    "aLσΣİßé \n\u3000.,:'’\"-–/()“”„«»¿$%#@019३٣٫צל·ا،कक्ക്ന\u0301\u3099\u064b\u05b0กำขខ្ញမ္။ཀ་།你世がｶﾞー。（각ʼն՞՛።"
    "😀👩❤🏴🇩🇪🏽©㊗ℹ\ufe0f\u20e3\u200c\u200d\u180eᠠ\u200b\u00ad\ufeff\x00\ud83d\U000e0067\U000e007f\ue000\ufdd0"
)
ORDINARY = st.lists(st.sampled_from([word for text, _ in SCRIPTS.values() for word in text.split()])).map(" ".join)
ADDRESSES = st.lists(st.sampled_from(["https", "http://", "www.", "a", "é\u0301", ".", "/", "-", "_", "(", " ", "好"]))
TEXTS = st.one_of(st.text(st.characters(exclude_categories=())), st.text(ALPHABET), ORDINARY, ADDRESSES.map("".join))
DECODED = [  # tokens, the expected text
    ("Hi , you ! ! ? 100 % ( a ) [ b ] : c ; d …", "Hi, you!!? 100% (a) [b]: c; d…"),
    ('" a " b " c " " d', '"a" b "c" "d'),
    ("' a ' b dogs ' tails said '", "'a' b dogs 'tails said'"),
    ("the dogs ' tails", "the dogs' tails"),
    ("„ a “ , » b « , « c » , “ d ” , ” e ” , ‘ f ’ x ” » y", "„a“, »b«, «c», “d”, ”e”, ‘f’ x”» y"),
    ("“ a ‘ b ’ c ” ( d )", "“a ‘b’ c” (d)"),
    ("mother - in - law and / or a _ b", "mother-in-law and/or a_b"),
    ("- a , - b -", "- a, - b -"),
    ("10 – 20 and A – B", "10–20 and A – B"),
    ("$ 5 , 5 € and # tag @ me & you", "$5, 5 € and #tag @me & you"),
    ("( https://t.co/x ) - www.a.org / b .", "(https://t.co/x) - www.a.org / b."),
    ("don ' t it ’ s", "don 't it’ s"),  # not don't, which is one token
    ("3 . 14 1 , 000 U . S .", "3. 14 1, 000 U. S."),
    ("at 8:30 a . m . J . R . R . Tolkien", "at 8:30 a.m. J. R. R. Tolkien"),
    ("- - no . . . 😂 😂 * * 👍 !", "-- no... 😂😂 ** 👍!"),
    ("བཀྲ་ ཤིས བདེ ། ( \u0301a ( \u064b # \u20e3 🇩 🇩 👍 👍", "བཀྲ་ཤིས བདེ། ( \u0301a ( \u064b # \u20e3 🇩 🇩 👍👍"),
    ("<unknown> , a <turn> ( <unknown> ) 他 <unknown> 。", "<unknown>, a <turn> (<unknown>)他 <unknown>。"),
    ("我 有 3 个 Python 程 序 ！ Hi 「 好 」 ok", "我有3个 Python 程序！Hi「好」ok"),
    ("他 说 “ 好 ” 。 是 … … 吗 ?", "他说“好”。是……吗?"),
    ("", ""),
]


@pytest.mark.parametrize(("tokens", "text"), DECODED)
def test_decode(tokens: str, text: str) -> None:
    assert TOKENIZER.decode(tokens.split()) == text


PAIRS = ["„“", "“”", "«»", "»«", "‹›", '""']


def quotation(rng: random.Random, ends: str, depth: int) -> tuple[list[str], str]:
    """The tokens of words and quotations in each other, and how they are written; ends: what closes the outer ones."""
    tokens, text = [], ""
    for _ in range(rng.randint(1, 3)):
        opening, closing = rng.choice(PAIRS)
        if depth < 4 and opening not in ends and rng.random() < 0.6:
            inner = quotation(rng, ends + {"„": "“”", "»": "«»"}.get(opening, closing), depth + 1)
            tokens += [opening, *inner[0], closing]
            text += f" {opening}{inner[1]}{closing}"
        else:
            tokens.append("a")
            text += " a"
    return tokens, text[1:]


def test_quotations_are_a_matching_of_marks() -> None:
    """A mark ends the innermost quotation that it can end, and with it those inside that have no end."""
    for seed in range(300):
        tokens, text = quotation(random.Random(seed), "", 0)
        assert TOKENIZER.decode(tokens) == text
    assert TOKENIZER.decode(list('„a"b“c"d“e”f')) == '„a "b“ c "d “e” f'


@pytest.mark.parametrize(("text", "tokens"), SCRIPTS.values(), ids=list(SCRIPTS))
def test_scripts(text: str, tokens: str) -> None:
    assert TOKENIZER.encode(text) == tokens.split()
    assert TOKENIZER.encode(unicodedata.normalize("NFD", text)) == tokens.split()
    assert TOKENIZER.decode(tokens.split()) == text


@pytest.mark.parametrize(("text", "tokens"), ENCODED)
def test_encode(text: str, tokens: str) -> None:
    assert TOKENIZER.encode(text) == tokens.split()


def test_lowercase() -> None:
    assert LOWERCASE.encode("HTTP://T.CO/X, OK") == LOWERCASE.encode_lines(["HTTP://T.CO/X, OK"])[0].split()
    assert LOWERCASE.encode("HTTP://T.CO/X, OK") == ["http://t.co/x", ",", "ok"]
    assert LOWERCASE.encode_lines(["Www.A.org!", "OK"]) == ["www.a.org !", "ok"]
    assert LOWERCASE.encode("ÄRGER, Σοφός ΟΔΟΣ. İ Ⅻ") == ["ärger", ",", "σοφός", "οδος", ".", "i̇", "ⅻ"]
    assert LOWERCASE.lowercase and not TOKENIZER.lowercase


def test_removed_characters() -> None:
    assert (
        TOKENIZER.count_removed(["so\u00adft \x00\u200b", "a\u200db", "می\u200cخواهم 👩\u200d👧 e\u0301 \ud800"]) == 5
    )
    assert TOKENIZER.count_removed([]) == 0


@given(TEXTS, st.sampled_from([TOKENIZER, LOWERCASE]))
def test_decoded_tokens_are_encoded_as_the_same(text: str, tokenizer: UnicodeTokenizer) -> None:
    tokens = tokenizer.encode(text)
    assert tokenizer.encode(tokenizer.decode(tokens)) == tokens
    assert tokenizer.encode(" ".join(tokens)) == tokens
    assert all(tokenizer.encode(token) == [token] for token in tokens)


@given(TEXTS)
def test_all_but_white_space_and_removed_characters_is_kept(text: str) -> None:
    tokens = "".join(TOKENIZER.encode(text))
    composed = unicodedata.normalize("NFC", text)
    assert TOKENIZER.encode(composed) == TOKENIZER.encode(unicodedata.normalize("NFD", text)) == TOKENIZER.encode(text)
    visible = [c for c in composed if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Cn") and not c.isspace()]
    if not TOKENIZER.count_removed([text]):
        assert tokens == "".join(composed.split())
    remaining = [c for c in tokens if unicodedata.category(c) not in ("Cf", "Cn")]
    assert unicodedata.normalize("NFC", "".join(visible)) == unicodedata.normalize("NFC", "".join(remaining))


@given(
    st.lists(st.text(st.characters(max_codepoint=127)) | st.text("a1'.,:\"- \n\x00\t"), max_size=4),
    st.sampled_from([TOKENIZER, LOWERCASE]),
)
def test_ascii_lines(texts: list[str], tokenizer: UnicodeTokenizer) -> None:
    assert tokenizer.encode_lines(texts) == [" ".join(tokenizer.encode(text)) for text in texts]


@pytest.mark.parametrize("lowercase", [False, True])
def test_typographic_apostrophes_within_words(lowercase: bool) -> None:
    tokenizer = UnicodeTokenizer(lowercase, normalize_apostrophes=True)
    text = "Rock’n’roll ’tis dogs’ “l’été” cafe\u0301’s п’ять пʼять don\u200b’t I'm"
    expected = "Rock'n'roll ’ tis dogs ’ “ l'été ” café's п'ять п'ять don't I'm"
    tokens = (expected.lower() if lowercase else expected).split()
    assert tokenizer.encode(text) == tokens
    assert tokenizer.encode_lines([text]) == [" ".join(tokens)]
    assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == tokens
    assert tokenizer.decode(["don't", "dogs", "’"]) == "don't dogs’"
