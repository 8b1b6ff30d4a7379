package broker

import "slices"

// Code is a stable name of a refusal or of a job's reason. Codes cross the
// wire and are never renamed.
type Code string

// The catalogue of codes. Each is documented in docs/refusals.md, produced by
// code that is no test and shown by a test; the tests named TestEveryCode in
// package architecture hold that together.
const (
	CodeOverloaded          Code = "overloaded"
	CodeQueueTimeout        Code = "queue_timeout"
	CodeStartTimeout        Code = "start_timeout"
	CodeCallTimeout         Code = "call_timeout"
	CodeIdleTimeout         Code = "idle_timeout"
	CodeBackendUnavailable  Code = "backend_unavailable"
	CodeBackendRefused      Code = "backend_refused"
	CodeOutcomeUnknown      Code = "outcome_unknown"
	CodeInstanceMismatch    Code = "instance_mismatch"
	CodeIdentityUnavailable Code = "identity_unavailable"
	CodeCatalogPending      Code = "catalog_pending"
	CodeVerbUnknown         Code = "verb_unknown"
	CodeProfileUnknown      Code = "profile_unknown"
	CodeInvalidArguments    Code = "invalid_arguments"
	CodeDuplicateRequestID  Code = "duplicate_request_id"
	CodeAnswerTooLarge      Code = "answer_too_large"
	CodeRequestTooLarge     Code = "request_too_large"
	CodeRequestIncomplete   Code = "request_incomplete"
	CodeCancelled           Code = "cancelled"
	CodeShuttingDown        Code = "shutting_down"
	CodeInternal            Code = "internal"
	CodeMissingJobID        Code = "missing_job_id"
	CodeJobNotFound         Code = "job_not_found"
	CodeJobJournal          Code = "job_journal_unavailable"
	CodeJobTerminal         Code = "job_terminal"
	CodeIdempotencyConflict Code = "idempotency_conflict"
	CodeIdempotencyKey      Code = "invalid_idempotency_key"
	CodeMissingReason       Code = "missing_reason"
	CodeUnauthorized        Code = "unauthorized"
	CodeOriginForbidden     Code = "origin_forbidden"
	CodeBrokerNotRunning    Code = "broker_not_running"
	CodeJobLostOnRestart    Code = "job_lost_on_restart"
	CodeReapedAsStale       Code = "reaped_as_stale"
	CodeOperationFailed     Code = "operation_failed"
	CodeTrackedWorkLost     Code = "tracked_work_lost"
	CodeInvalidStatus       Code = "invalid_status"
	CodeNotFound            Code = "not_found"
	CodeMethodNotAllowed    Code = "method_not_allowed"
	CodeGlobalAdministrator Code = "global_administrator_required"
	CodeReadOnly            Code = "read_only_session"
	CodeTrackingExpired     Code = "tracking_expired"
	CodeInstanceForbidden   Code = "instance_forbidden"
	CodeHandleUnknown       Code = "handle_unknown"
	CodeEffectsExceedRead   Code = "effects_exceed_read"
	CodeMetaRecursion       Code = "meta_recursion"
	CodeTargetsNotReady     Code = "targets_not_ready"
	CodeVerbChanged         Code = "verb_changed"
	CodeBackupFailed        Code = "bbolt_backup_failed"
	CodeBackupVerify        Code = "bbolt_verify_failed"
	CodeBackupPath          Code = "backup_path_not_writable"
	CodeBackupInProgress    Code = "backup_in_progress"
	CodeBackupNotFound      Code = "backup_file_not_found"
	CodeBackupUnreadable    Code = "backup_unreadable"
	CodeBackupProvider      Code = "backup_provider_mismatch"
	CodeBackupSchema        Code = "backup_schema_unknown"
	CodeSafetyBackup        Code = "safety_backup_failed"
	CodeRestoreBlocked      Code = "restore_blocked_by_work"
	CodeRestoreDiffers      Code = "restore_result_differs"
	CodeBrokerRunning       Code = "broker_running"

	// Of a request to dispatch.
	CodeMissingTitle              Code = "missing_title"
	CodeMissingMissions           Code = "missing_missions"
	CodeMissingMissionTitle       Code = "missing_mission_title"
	CodeMissingMissionDescription Code = "missing_mission_description"
	CodeInvalidMissionMode        Code = "invalid_mission_mode"
	CodePrestagedFileInvalid      Code = "prestaged_file_invalid"
	CodeMissionAliasDuplicate     Code = "mission_alias_duplicate"
	CodeMissionAliasUnknown       Code = "mission_alias_unknown"
	CodeMissionAliasCycle         Code = "mission_alias_cycle"
	CodeNotBuilt                  Code = "not_built"
	CodeInvalidVesselName         Code = "invalid_vessel_name"
	CodeRuntimeUnsupported        Code = "runtime_unsupported"
	CodePromptTooLarge            Code = "prompt_too_large"
	CodeVesselNotFound            Code = "vessel_not_found"
	CodeVesselBusy                Code = "vessel_busy"
	CodeCaptainNotFound           Code = "captain_not_found"
	CodeCaptainBusy               Code = "captain_busy"
	CodeCaptainNotBenched         Code = "captain_not_benched"
	CodeCaptainNameTaken          Code = "captain_name_taken"
	CodeServerOwnedField          Code = "captain_server_owned_field"
	CodeServerPath                Code = "server_path_forbidden"
	CodeLandingUnsupported        Code = "landing_mode_unsupported"
	CodeInvalidTier               Code = "invalid_tier"
	CodeInvalid                   Code = "invalid"
)

// codes says what is the same for every refusal of a code: whether a repeat of
// the same call can succeed without the caller changing anything.
var codes = map[Code]struct{ retryable bool }{
	CodeOverloaded:          {true},
	CodeQueueTimeout:        {true},
	CodeStartTimeout:        {true},
	CodeCallTimeout:         {false},
	CodeIdleTimeout:         {false},
	CodeBackendUnavailable:  {true},
	CodeBackendRefused:      {false},
	CodeOutcomeUnknown:      {false},
	CodeInstanceMismatch:    {false},
	CodeIdentityUnavailable: {false},
	CodeCatalogPending:      {true},
	CodeVerbUnknown:         {false},
	CodeProfileUnknown:      {false},
	CodeInvalidArguments:    {false},
	CodeDuplicateRequestID:  {false},
	CodeAnswerTooLarge:      {false},
	CodeRequestTooLarge:     {false},
	CodeRequestIncomplete:   {true},
	CodeCancelled:           {false},
	CodeShuttingDown:        {true},
	CodeInternal:            {false},
	CodeMissingJobID:        {false},
	CodeJobNotFound:         {false},
	CodeJobJournal:          {true},
	CodeJobTerminal:         {false},
	CodeIdempotencyConflict: {false},
	CodeIdempotencyKey:      {false},
	CodeMissingReason:       {false},
	CodeUnauthorized:        {false},
	CodeOriginForbidden:     {false},
	CodeBrokerNotRunning:    {true},
	CodeJobLostOnRestart:    {false},
	CodeReapedAsStale:       {false},
	CodeOperationFailed:     {false},
	CodeTrackedWorkLost:     {false},
	CodeInvalidStatus:       {false},
	CodeNotFound:            {false},
	CodeMethodNotAllowed:    {false},
	CodeGlobalAdministrator: {false},
	CodeReadOnly:            {false},
	CodeTrackingExpired:     {false},
	CodeInstanceForbidden:   {false},
	CodeHandleUnknown:       {false},
	CodeEffectsExceedRead:   {false},
	CodeMetaRecursion:       {false},
	CodeTargetsNotReady:     {true},
	CodeVerbChanged:         {false},
	CodeBackupFailed:        {false},
	CodeBackupVerify:        {false},
	CodeBackupPath:          {false},
	CodeBackupInProgress:    {true},
	CodeBackupNotFound:      {false},
	CodeBackupUnreadable:    {false},
	CodeBackupProvider:      {false},
	CodeBackupSchema:        {false},
	CodeSafetyBackup:        {false},
	CodeRestoreBlocked:      {false},
	CodeRestoreDiffers:      {false},
	CodeBrokerRunning:       {true},

	CodeMissingTitle:              {false},
	CodeMissingMissions:           {false},
	CodeMissingMissionTitle:       {false},
	CodeMissingMissionDescription: {false},
	CodeInvalidMissionMode:        {false},
	CodePrestagedFileInvalid:      {false},
	CodeMissionAliasDuplicate:     {false},
	CodeMissionAliasUnknown:       {false},
	CodeMissionAliasCycle:         {false},
	CodeNotBuilt:                  {false},
	CodeInvalidVesselName:         {false},
	CodeRuntimeUnsupported:        {false},
	CodePromptTooLarge:            {false},
	CodeVesselNotFound:            {false},
	CodeVesselBusy:                {false},
	CodeCaptainNotFound:           {false},
	CodeCaptainBusy:               {false},
	CodeCaptainNotBenched:         {false},
	CodeCaptainNameTaken:          {false},
	CodeServerOwnedField:          {false},
	CodeServerPath:                {false},
	CodeLandingUnsupported:        {false},
	CodeInvalidTier:               {false},
	CodeInvalid:                   {false},
}

// Codes lists every code in byte order, for documentation and its test.
func Codes() []Code {
	out := make([]Code, 0, len(codes))
	for c := range codes {
		out = append(out, c)
	}
	slices.Sort(out)
	return out
}
