package journal_test

const childMode = "BERTH_JOURNAL_CHILD"

func child() {}
