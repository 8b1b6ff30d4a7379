package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"berth/broker"
	"berth/transport/httpguard"
)

// maxSmallBody limits the body of every request that carries no arguments of
// a verb, in bytes.
const maxSmallBody = 64 << 10

// readBody reads the body before the handler runs, so that a slow sender holds
// nothing but its connection.
func (a *api) readBody(limit int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, status, refusal := httpguard.ReadBody(w, r, limit)
		if refusal != nil {
			httpguard.WriteError(w, status, "", refusal)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// refused is an error with a status of its own.
type refused struct {
	status  int
	word    string // instead of the status's usual word
	refusal *broker.Refusal
}

func (e *refused) Error() string { return e.refusal.Error() }
func (e *refused) Unwrap() error { return e.refusal }

// statuses maps codes to HTTP statuses; a code that is not here is 400.
var statuses = map[broker.Code]int{
	broker.CodeUnauthorized:            http.StatusUnauthorized,
	broker.CodeOriginForbidden:         http.StatusForbidden,
	broker.CodeGlobalAdministrator:     http.StatusForbidden,
	broker.CodeWakeNotAddressed:        http.StatusForbidden,
	broker.CodeWakeOwnerOnly:           http.StatusForbidden,
	broker.CodeReadOnly:                http.StatusForbidden,
	broker.CodeDispatchHold:            http.StatusConflict,
	broker.CodeProfileNotPermitted:     http.StatusForbidden,
	broker.CodeCSRF:                    http.StatusForbidden,
	broker.CodeCredentialNotFound:      http.StatusNotFound,
	broker.CodeCredentialsFull:         http.StatusConflict,
	broker.CodeRateLimited:             http.StatusTooManyRequests,
	broker.CodeNotFound:                http.StatusNotFound,
	broker.CodeJobNotFound:             http.StatusNotFound,
	broker.CodeVesselNotFound:          http.StatusNotFound,
	broker.CodeVesselBusy:              http.StatusConflict,
	broker.CodeIndexUpdating:           http.StatusConflict,
	broker.CodeDockNotFound:            http.StatusNotFound,
	broker.CodeMissionNotFound:         http.StatusNotFound,
	broker.CodeVoyageNotFound:          http.StatusNotFound,
	broker.CodeCaptainNotFound:         http.StatusNotFound,
	broker.CodeDependencyNotFound:      http.StatusNotFound,
	broker.CodeParentNotFound:          http.StatusNotFound,
	broker.CodeMissionDiff:             http.StatusNotFound,
	broker.CodeDockInUse:               http.StatusConflict,
	broker.CodeDockBranchMissing:       http.StatusConflict,
	broker.CodeInvalidTransition:       http.StatusConflict,
	broker.CodeCompletionAncestry:      http.StatusConflict,
	broker.CodeCompletionCaptain:       http.StatusConflict,
	broker.CodeCompletionCheck:         http.StatusConflict,
	broker.CodeCompletionJudge:         http.StatusConflict,
	broker.CodeCompletionNotLanded:     http.StatusConflict,
	broker.CodeCompletionReview:        http.StatusConflict,
	broker.CodeMissionActive:           http.StatusConflict,
	broker.CodeMissionNotEditable:      http.StatusConflict,
	broker.CodeMissionNotLandingFailed: http.StatusConflict,
	broker.CodeMissionNotRestartable:   http.StatusConflict,
	broker.CodeMissionTerminal:         http.StatusConflict,
	broker.CodeVoyageActive:            http.StatusConflict,
	broker.CodeCaptainBusy:             http.StatusConflict,
	broker.CodeCaptainNameTaken:        http.StatusConflict,
	broker.CodeCaptainNotBenched:       http.StatusConflict,
	broker.CodeIndexStale:              http.StatusConflict,
	broker.CodeContextUnavailable:      http.StatusConflict,
	broker.CodeServerPath:              http.StatusForbidden,
	broker.CodeEventNotFound:           http.StatusNotFound,
	broker.CodeProfileUnknown:          http.StatusNotFound,
	broker.CodeVerbUnknown:             http.StatusNotFound,
	broker.CodeMethodNotAllowed:        http.StatusMethodNotAllowed,
	broker.CodeJobTerminal:             http.StatusConflict,
	broker.CodeIdempotencyConflict:     http.StatusConflict,
	broker.CodeBackupInProgress:        http.StatusConflict,
	broker.CodeRestoreBlocked:          http.StatusConflict,
	broker.CodeRestoreDiffers:          http.StatusConflict,
	broker.CodeRestoreInProgress:       http.StatusServiceUnavailable,
	broker.CodeSafetyBackup:            http.StatusInternalServerError,
	broker.CodeReloadInProgress:        http.StatusConflict,
	broker.CodeBackupFailed:            http.StatusInternalServerError,
	broker.CodeBackupVerify:            http.StatusInternalServerError,
	broker.CodeRequestTooLarge:         http.StatusRequestEntityTooLarge,
	broker.CodeOverloaded:              http.StatusTooManyRequests,
	broker.CodeInternal:                http.StatusInternalServerError,
	broker.CodeOutcomeUnknown:          http.StatusInternalServerError,
	broker.CodeJobJournal:              http.StatusServiceUnavailable,
	broker.CodeBackendDraining:         http.StatusServiceUnavailable,
	broker.CodeShuttingDown:            http.StatusServiceUnavailable,
	broker.CodeCatalogPending:          http.StatusServiceUnavailable,
	broker.CodeBackendUnavailable:      http.StatusServiceUnavailable,
}

// answered is an answer with another status than 200.
type answered struct {
	status int
	body   json.RawMessage
}

// answering makes a handler of a method that gives a value to encode, or an
// error.
func answering(method func(*api, *http.Request) (any, error)) func(*api) http.Handler {
	return func(a *api) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v, err := method(a, r)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			status := http.StatusOK
			if other, ok := v.(answered); ok {
				status, v = other.status, other.body
			}
			httpguard.WriteJSON(w, status, v)
		})
	}
}

// fail writes err. An error that is no refusal is logged here and reaches the
// caller as a neutral sentence.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	var own *refused
	if errors.As(err, &own) {
		httpguard.WriteError(w, own.status, own.word, own.refusal)
		return
	}
	switch {
	case errors.Is(err, broker.ErrJobNotFound):
		err = broker.Refuse(broker.CodeJobNotFound, "Job not found", map[string]any{"JobId": r.PathValue("id")})
	case errors.Is(err, broker.ErrJobFinal):
		err = broker.Refuse(broker.CodeJobTerminal, "The job is final; there is nothing left to cancel.", map[string]any{"JobId": r.PathValue("id")})
	case errors.Is(err, broker.ErrJournalBusy):
		err = broker.Refuse(broker.CodeJobJournal, "The journal has too many writes waiting; nothing was written.", nil)
	}
	refusal := broker.AsRefusal(err)
	if refusal.Code == broker.CodeInternal {
		a.Log.Error("a request failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	status, known := statuses[refusal.Code]
	if !known {
		status = http.StatusBadRequest
	}
	httpguard.WriteError(w, status, "", refusal)
}

func badRequest(code broker.Code, message string, detail map[string]any) error {
	return &refused{status: http.StatusBadRequest, refusal: broker.Refuse(code, message, detail)}
}

// number reads a whole number of the query. What is outside [low, high] is
// clamped (contracts/native.md section 0); what is no number is refused.
func number(r *http.Request, name string, otherwise, low, high int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if errors.Is(err, strconv.ErrRange) {
		n, err = high, nil
		if text[0] == '-' {
			n = low
		}
	}
	if err != nil {
		return 0, badRequest(broker.CodeInvalidArguments, name+" must be a whole number.", map[string]any{"Name": name})
	}
	return min(max(n, low), high), nil
}

// truth reads a boolean of the query; without it, or with an empty one, it is
// false.
func truth(r *http.Request, name string) (bool, error) {
	switch text := r.URL.Query().Get(name); {
	case text == "", strings.EqualFold(text, "false"):
		return false, nil
	case strings.EqualFold(text, "true"):
		return true, nil
	}
	return false, badRequest(broker.CodeInvalidArguments, name+" must be true or false.", map[string]any{"Name": name})
}

func countingIDs() func() string {
	var n atomic.Uint64
	return func() string { return "rest-" + strconv.FormatUint(n.Add(1), 10) }
}
