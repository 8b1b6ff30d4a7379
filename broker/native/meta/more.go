package meta

import (
	"berth/broker"
	"berth/broker/shape"
)

// more gives the next part of an answer that was cut.
func (f *Family) more(a ask) (any, *broker.Refusal) {
	var args struct {
		Handle       string
		Offset       *int
		ResultTokens *int `json:"result_tokens"`
	}
	if refusal := decode(a.arguments, &args); refusal != nil {
		return nil, refusal
	}
	store := f.opts.Store
	kept, next, refusal := store.Find(a.now, a.who, args.Handle)
	if refusal != nil {
		return nil, refusal
	}
	if args.Offset != nil {
		next = *args.Offset
	}
	var limits shape.Limits
	if args.ResultTokens != nil && *args.ResultTokens > 0 {
		limits.Budget = shape.ResultBudget(shape.Budget(*args.ResultTokens), 0, 0)
	}
	limits.Factor = a.profile.Answers().TokenFactor
	page, err := kept.Page(next, limits, f.opts.Counter, store.Child(a.now, a.who, args.Handle), func() (string, error) { return shape.NewHandle(f.opts.Random) })
	if err != nil {
		return nil, broker.AsRefusal(err)
	}
	if then, complete := store.Delivered(a.now, a.who, args.Handle, page); complete && then != nil && f.opts.Delivered != nil {
		f.opts.Delivered(then)
	}
	return page.Document, nil
}
