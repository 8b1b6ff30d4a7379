// Package search finds verbs by what somebody says of them
// (contracts/catalog.md section 7): the ranking behind `find`, behind `help`
// and behind the names that are suggested for a wrong one.
//
// It owns the order of matches, the forms in which names and words are
// compared, the table of synonyms and the distance between spellings. It never
// chooses for a caller: nothing found is an empty list, not the least bad name.
// It knows nothing of visibility: an index is made of the verbs that its reader
// may see and of no other, so that its statistics tell nothing either.
//
// Decided: words are compared by their English stem (Porter2), which drops the
// plural s, as the contract asks, and other endings with it. Words without a
// meaning of their own ("the", "please") count only when a query has no other.
//
// Decided: the words of a name belong to the text too, with more weight, so that
// a long sentence which holds too few of them to match by name still profits.
//
// Decided: a sentence whose words are all known is not compared by spelling: of a
// long one a third of the letters is enough to turn it into another name.
//
// Decided: a name that is guessed wrong is answered by a text match only when
// nothing matches by name and the text holds each of its words.
//
// An Index is immutable and safe for concurrent use. What a query costs is
// bounded by [MaxQuery] and [MaxWords].
package search
