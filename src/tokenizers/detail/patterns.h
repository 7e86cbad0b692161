#pragma once

#include <string_view>

// Patterns of pre-tokenizers, as the tokenizer.json and tiktoken files of the models spell them.
namespace quern::tokenizers::detail::patterns {

#define QUERN_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define QUERN_WHITE R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define QUERN_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define QUERN_SIGNS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define QUERN_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define QUERN_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define QUERN_CASED(contraction, digits)                                                                                                   \
  R"([^\r\n\p{L}\p{N}]?)" QUERN_UPPER "*" QUERN_LOWER "+" contraction R"(|[^\r\n\p{L}\p{N}]?)" QUERN_UPPER "+" QUERN_LOWER "*" contraction \
  "|" digits R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QUERN_WHITE

inline constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3 = QUERN_CONTRACTION "|" QUERN_WORD R"(|\p{N}{1,3})" QUERN_SIGNS QUERN_WHITE;
inline constexpr std::string_view kLlama3LongNumbers = QUERN_CONTRACTION "|" QUERN_WORD R"(|\p{N}+)" QUERN_SIGNS QUERN_WHITE;
inline constexpr std::string_view kQwen2 = QUERN_CONTRACTION "|" QUERN_WORD R"(|\p{N})" QUERN_SIGNS QUERN_WHITE;
inline constexpr std::string_view kQwen35 =
    QUERN_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" QUERN_WHITE;
inline constexpr std::string_view kUfakzeka = QUERN_WORD R"(|\p{N})" QUERN_SIGNS QUERN_WHITE;
inline constexpr std::string_view kSeedCoder = QUERN_CONTRACTION "|" QUERN_WORD R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" QUERN_WHITE;
inline constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view kExaoneMoe =
    QUERN_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view kJais2 =
    QUERN_CONTRACTION "|" QUERN_WORD R"(|\p{N}{1,3})" QUERN_SIGNS
                      R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S))"
                      R"(|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
inline constexpr std::string_view kGpt4o = QUERN_CASED(QUERN_CONTRACTION "?", R"(\p{N}{1,3})");
inline constexpr std::string_view kYoutu = QUERN_CASED(QUERN_CONTRACTION "?", R"(\p{N})");
inline constexpr std::string_view kTekken = QUERN_CASED("", R"(\p{N})");
inline constexpr std::string_view kKimiK2 =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" QUERN_CONTRACTION
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" QUERN_CONTRACTION
    R"(?|\p{N}{1,3})" QUERN_SIGNS QUERN_WHITE;
inline constexpr std::string_view kR50k = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
inline constexpr std::string_view kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

inline constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" QUERN_WHITE;
inline constexpr std::string_view kSpark =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view kSpacedLetters = R"(\s?\p{L}+)";
inline constexpr std::string_view kSpacedPunctuation = R"(\s?\p{P}+)";
inline constexpr std::string_view kPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
inline constexpr std::string_view kPunctuationAndBackquote = R"([\p{P}\$\+<=>\^~\|`]+)";
inline constexpr std::string_view kNumber = R"(\p{N})";
inline constexpr std::string_view kNumbersByThree = R"(\p{N}{1,3})";
inline constexpr std::string_view kNumbers = R"(\p{N}+)";
inline constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
inline constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
inline constexpr std::string_view kLineEnd = R"([\r\n])";

// Lists of characters.
inline constexpr std::string_view kCjkAndKana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
inline constexpr std::string_view kCjkAndHangul = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
inline constexpr std::string_view kNoSentenceMarks = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
inline constexpr std::string_view kYoutuScripts =
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)";
// Letters of scripts with two cases, as DeepSeek LLM lists them.
inline constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄ)"
    R"(ῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ)"
    R"(𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
inline constexpr std::string_view kDeepseekSigns = R"(\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+)";
inline constexpr std::string_view kWhiteAtEnd = R"(\s+$)";
inline constexpr std::string_view kAfmoeScripts =
    R"([一-鿿㐀-䶿\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF})"
    R"(\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";

// Digits in groups of three from the right.
inline constexpr std::string_view kDigitGroups = R"(\d{1,3}(?=(?:\d{3})*\b))";
inline constexpr std::string_view kDigitGroupBorders = R"((?=(\d{3})+(?!\d)))";
inline constexpr std::string_view kNumberGroupBorders = R"((?=(?:\p{N}{3})+(?!\p{N})))";

inline constexpr std::string_view kSentinel = "<sentinel:[0-9]+>";
inline constexpr std::string_view kImage = "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z";
inline constexpr std::string_view kIndentation = "([\\t\\n]|    |  )";
inline constexpr std::string_view kPunctuationMark = R"([\p{P}!-/:-@\[-`{-~])";
inline constexpr std::string_view kNotWhite = R"(\S+)";

#undef QUERN_CONTRACTION
#undef QUERN_WHITE
#undef QUERN_WORD
#undef QUERN_SIGNS
#undef QUERN_UPPER
#undef QUERN_LOWER
#undef QUERN_CASED

}  // namespace quern::tokenizers::detail::patterns
