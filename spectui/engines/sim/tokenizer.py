"""A small reversible tokenizer: word pieces of the bundled text, bytes for everything else.

Ids are stable for a version of the bundled text. Any text comes back unchanged, lone surrogates included.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

VOCAB_SIZE = 49152
"""As large as the recorded model's; ids above the pieces decode to nothing."""
END_OF_TEXT, IM_START, EOS = 0, 1, 2
SPECIAL = {"<|endoftext|>": END_OF_TEXT, "<|im_start|>": IM_START, "<|im_end|>": EOS}
_BYTES = 16
_PIECES = 300
_SPLIT = re.compile(r" ?[^\W\d_]+|\d| ?[^\w\s]+|_+|\n+ *|[ \t]+(?= )|\s+|.", re.DOTALL)
_SPECIALS = re.compile("(" + "|".join(re.escape(s) for s in SPECIAL) + ")")
_LONGEST_PART = 6

_COMMON = ["the", "a", "an", "of", "to", "and", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are", "with", "as", "his", "they", "be", "at", "one", "have", "this", "from", "or", "had", "by", "hot", "but", "some", "what", "there", "we", "can", "out", "other", "were", "all", "your", "when", "up", "use", "word", "how", "said", "each", "she", "which", "do", "their", "time", "if", "will", "way", "about", "many", "then", "them", "would", "write", "like", "so", "these", "her", "long", "make", "thing", "see", "him", "two", "has", "look", "more", "day", "could", "go", "come", "did", "my", "sound", "no", "most", "number", "who", "over", "know", "water", "than", "call", "first", "people", "may", "down", "side", "been", "now", "find", "any", "new", "work", "part", "take", "get", "place", "made", "live", "where", "after", "back", "little", "only", "round", "man", "year", "came", "show", "every", "good", "me", "give", "our", "under", "name", "very", "through", "just", "form", "much", "great", "think", "say", "help", "low", "line", "before", "turn", "cause", "same", "mean", "differ", "move", "right", "boy", "old", "too", "does", "tell", "sentence", "set", "three", "want", "air", "well", "also", "play", "small", "end", "put", "home", "read", "hand", "port", "large", "spell", "add", "even", "land", "here", "must", "big", "high", "such", "follow", "act", "why", "ask", "men", "change", "went", "light", "kind", "off", "need", "house", "picture", "try", "us", "again", "animal", "point", "mother", "world", "near", "build", "self", "earth", "father", "head", "stand", "own", "page", "should", "country", "found", "answer", "school", "grow", "study", "still", "learn", "plant", "cover", "food", "sun", "four", "thought", "let", "keep", "eye", "never", "last", "door", "between", "city", "tree", "cross", "since", "hard", "start", "might", "story", "saw", "far", "sea", "draw", "left", "late", "run", "don", "while", "press", "close", "night", "real", "life", "few", "stop", "open", "seem", "together", "next", "white", "children", "begin", "got", "walk", "example", "ease", "paper", "often", "always", "music", "those", "both", "mark", "book", "letter", "until", "mile", "river", "car", "feet", "care", "second", "group", "carry", "took", "rain", "eat", "room", "friend", "began", "idea", "fish", "mountain", "north", "once", "base", "hear", "horse", "cut", "sure", "watch", "colour", "face", "wood", "main", "enough", "plain", "girl", "usual", "young", "ready", "above", "ever", "red", "list", "though", "feel", "talk", "bird", "soon", "body", "dog", "family", "direct", "pose", "leave", "song", "measure", "state", "product", "black", "short", "numeral", "class", "wind", "question", "happen", "complete", "ship", "area", "half", "rock", "order", "fire", "south", "problem", "piece", "told", "knew", "pass", "farm", "top", "whole", "king", "size", "heard", "best", "hour", "better", "true", "during", "hundred", "remember", "step", "early", "hold", "west", "ground", "interest", "reach", "fast", "five", "sing", "listen", "six", "table", "travel", "less", "morning", "ten", "simple", "several", "vowel", "toward", "war", "lay", "against", "pattern", "slow", "centre", "love", "person", "money", "serve", "appear", "road", "map", "science", "rule", "govern", "pull", "cold", "notice", "voice", "fall", "power", "town", "fine", "certain", "fly", "unit", "lead", "cry", "dark", "machine", "note", "wait", "plan", "figure", "star", "box", "noun", "field", "rest", "correct", "able", "pound", "done", "beauty", "drive", "stood", "contain", "front", "teach", "week", "final", "gave", "green", "quick", "develop", "sleep", "warm", "free", "minute", "strong", "special", "mind", "behind", "clear", "tail", "produce", "fact", "street", "inch", "lot", "nothing", "course", "stay", "wheel", "full", "force", "blue", "object", "decide", "surface", "deep", "moon", "island", "foot", "yet", "busy", "test", "record", "boat", "common", "gold", "possible", "plane", "age", "dry", "wonder", "laugh", "thousand", "ago", "ran", "check", "game", "shape", "yes", "hot", "miss", "brought", "heat", "snow", "bed", "bring", "sit", "perhaps", "fill", "east", "weight", "language", "among", "explain", "describe", "translate", "rewrite", "summarise", "records", "json", "code", "function", "return", "def", "class", "import", "self", "true", "false", "null", "none"]
_PARTS = ["ing", "ed", "er", "est", "ly", "tion", "sion", "ment", "ness", "able", "ible", "ful", "less", "ous", "ive", "al", "ic", "ity", "ance", "ence", "ant", "ent", "ist", "ism", "ise", "ize", "age", "ate", "en", "un", "re", "in", "dis", "pre", "con", "com", "pro", "per", "sub", "inter", "trans", "over", "under", "out", "up", "th", "ch", "sh", "ck", "st", "nd", "nt", "ng", "ll", "ss", "ee", "oo", "ou", "ea", "ai", "ie", "qu", "ph", "wh", "str", "thr", "tr", "dr", "br", "cr", "gr", "pr", "fr", "bl", "cl", "fl", "gl", "pl", "sl", "sp", "sc", "sk", "sm", "sn", "sw", "tw", "an", "on", "at", "it", "is", "or", "ar", "us", "os", "as", "es", "ma", "me", "mi", "mo", "mu", "la", "le", "li", "lo", "lu", "ra", "ri", "ro", "ru", "na", "ne", "ni", "no", "nu", "ta", "te", "ti", "to", "tu", "da", "de", "di", "do", "du", "sa", "se", "si", "so", "su", "ba", "be", "bi", "bo", "bu", "ca", "ce", "ci", "co", "cu", "fa", "fe", "fi", "fo", "fu", "ga", "ge", "gi", "go", "gu", "ha", "he", "hi", "ho", "hu", "ka", "ke", "ki", "ko", "pa", "pe", "pi", "po", "pu", "va", "ve", "vi", "vo", "wa", "we", "wi", "wo", "ya", "ye", "yo", "za", "ze"]
_MARKS = ['.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '"', "'", '-', '–', '…', '``', '```', '/', '\\', '+', '*', '=', '<', '>', '%', '&', '#', '@', '_', '|', '~', '^', '$', '..', '...', '","', '":"', '{"', '"}', '},', '],', '[{', '}]', '("', '")', '))', '==', '!=', '>=', '<=', '+=', '-=', '->', '::', '//', '**', '(),', '):', ']:', ').', '.)', '."', ',"', '":', '",', '[]:', '{}:', '()', '[]', '{}', "='"]


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    from spectui.engines.sim.prose import bundled_words

    return Tokenizer(bundled_words())


class Tokenizer:
    def __init__(self, words: Iterable[str]) -> None:
        pieces: dict[str, None] = {}
        for mark in _MARKS:
            pieces[mark] = None
            pieces[" " + mark] = None
        pieces.update((("\n" * n + " " * m), None) for n in (0, 1, 2) for m in range(17) if n + m)
        pieces.update((text, None) for text in ("\t", "\r\n", "—", " —"))
        for part in _PARTS:
            pieces[part] = None
        for word in [*words, *_COMMON]:
            for form in (word, word[:1].upper() + word[1:]):
                pieces[form] = None
                pieces[" " + form] = None
        self._ids = {piece: _PIECES + i for i, piece in enumerate(p for p in pieces if len(p.encode()) > 1)}
        self._texts: dict[int, bytes] = {i: piece.encode() for piece, i in self._ids.items()}
        self._texts.update({_BYTES + b: bytes([b]) for b in range(256)})
        self._specials = {i: s.encode() for s, i in SPECIAL.items()}

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens that are written out become one id."""
        out: list[int] = []
        for run in _SPECIALS.split(text):
            special = SPECIAL.get(run)
            if special is not None:
                out.append(special)
            elif run:
                for match in _SPLIT.finditer(run):
                    self._piece(match.group(), out)
        return out

    def _piece(self, piece: str, out: list[int]) -> None:
        known = self._ids.get(piece)
        if known is not None:
            out.append(known)
            return
        at = 0
        while at < len(piece):
            for length in range(min(_LONGEST_PART, len(piece) - at), 1, -1):
                known = self._ids.get(piece[at : at + length])
                if known is not None:
                    out.append(known)
                    at += length
                    break
            else:
                out.extend(_BYTES + b for b in piece[at].encode("utf-8", "surrogatepass"))
                at += 1

    def raw(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token; nothing for ids without text, and for special ones unless asked for."""
        if token in self._specials:
            return self._specials[token] if special else b""
        return self._texts.get(token, b"")

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        raw = b"".join(self.raw(t, special=special) for t in tokens)
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")

    def stream(self) -> Detokenizer:
        return Detokenizer(self)


class Detokenizer:
    """Text of a growing answer; half a character waits for its other half."""

    __slots__ = ("_decoder", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[int]) -> str:
        return self._decoder.decode(b"".join(map(self._tokenizer.raw, tokens)))

    def end(self) -> str:
        return self._decoder.decode(b"", True)


def chat_text(messages: Sequence[dict[str, object]]) -> str:
    """Messages through the chat template, up to where the answer begins.

    Raises:
        ValueError: a message without role or text content; the text says which.
    """
    out = []
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            raise ValueError(f"messages[{i}] has no role")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
        out.append(f"<|im_start|>{message['role']}\n{content or ''}<|im_end|>\n")
    return "".join(out) + "<|im_start|>assistant\n"
