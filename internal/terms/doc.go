// Package terms cuts text of any script into the terms that a search compares, and finds a query in a text.
//
// What a term is:
//   - In scripts that put spaces between words: a word. A query's word of three letters or more also finds longer words
//     that begin with it, which serves most inflected languages.
//   - In scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese), and in Korean, which compounds: each
//     two neighbouring characters. So any two characters of a text can be found, and any single character by the
//     beginning of such a pair.
//   - Each symbol, such as one of an emoji's.
//
// Terms are folded: case, width, compatibility forms and diacritics do not count ("Ærø" is "aero", "Łódź" is "lodz",
// "ё" is "е"). Marks that make another letter of one, as in Indic scripts and Japanese, do count.
//
// Limits: there are no dictionaries, so that neither stems nor synonyms are known; punctuation cannot be searched for.
package terms
