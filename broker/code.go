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
	CodeBackendDraining     Code = "backend_draining"
	CodeOutcomeUnknown      Code = "outcome_unknown"
	CodeInstanceMismatch    Code = "instance_mismatch"
	CodeIdentityUnavailable Code = "identity_unavailable"
	CodeCatalogPending      Code = "catalog_pending"
	CodeVerbUnknown         Code = "verb_unknown"
	CodeProfileUnknown      Code = "profile_unknown"
	// CodeInvalidArgument is of a backend's verb (contracts/catalog.md section 3),
	// CodeInvalidArguments of one of the broker's own (contracts/native.md section
	// 1.7) and of every request that is no call.
	CodeInvalidArgument     Code = "invalid_argument"
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
	CodeMissingSetBy        Code = "missing_set_by"
	CodeDispatchHold        Code = "dispatch_hold_active"
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
	CodeRestoreInProgress   Code = "restore_in_progress"
	CodeMissingFilePath     Code = "missing_file_path"
	CodeBrokerRunning       Code = "broker_running"
	CodeRateLimited         Code = "rate_limited"
	CodeProfileNotPermitted Code = "profile_not_permitted"
	CodeCSRF                Code = "csrf_token_required"
	CodeCredentialNotFound  Code = "credential_not_found"
	CodeCredentialsFull     Code = "too_many_credentials"
	CodeCredentialFile      Code = "credential_file_missing"

	CodeMissingIDs           Code = "missing_ids"
	CodeMissingEventID       Code = "missing_event_id"
	CodeEventNotFound        Code = "event_not_found"
	CodeUnknownEntityType    Code = "unknown_entity_type"
	CodeMissingContent       Code = "missing_content"
	CodeMissingAuthorName    Code = "missing_author_name"
	CodeMissingParticipant   Code = "missing_participant_key"
	CodeMissingDisplayName   Code = "missing_display_name"
	CodeMissingSubject       Code = "missing_subject"
	CodeMissingClaimID       Code = "missing_claim_id"
	CodeInvalidParticipant   Code = "invalid_participant_key"
	CodeInvalidRoomKey       Code = "invalid_room_key"
	CodeInvalidAction        Code = "invalid_action"
	CodeInvalidRuntime       Code = "invalid_runtime"
	CodeSignalNotWake        Code = "signal_not_wake"
	CodeWakeNotAddressed     Code = "wake_not_addressed_to_caller"
	CodeWakeOwnerOnly        Code = "wake_owner_only"
	CodeServerPath           Code = "server_path_forbidden"
	CodeConfigurationRefused Code = "configuration_refused"
	CodeReloadInProgress     Code = "reload_in_progress"

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
	CodeLandingUnsupported        Code = "landing_mode_unsupported"
	CodeInvalidTier               Code = "invalid_tier"
	CodeInvalid                   Code = "invalid"

	// Of voyages, missions and docks.
	CodeMissingMissionID        Code = "missing_mission_id"
	CodeMissingVoyageID         Code = "missing_voyage_id"
	CodeDockNotFound            Code = "dock_not_found"
	CodeDependencyNotFound      Code = "mission_dependency_not_found"
	CodeParentNotFound          Code = "parent_mission_not_found"
	CodeStartFromRefMissing     Code = "start_from_ref_missing"
	CodeVoyageActive            Code = "voyage_active"
	CodeMissionActive           Code = "mission_active"
	CodeMissionTerminal         Code = "mission_terminal"
	CodeMissionNotEditable      Code = "mission_not_editable"
	CodeMissionNotRestartable   Code = "mission_not_restartable"
	CodeMissionNotLandingFailed Code = "mission_not_landing_failed"
	CodeInvalidTransition       Code = "invalid_transition"
	CodeMissionDiff             Code = "mission_diff_unavailable"
	CodeDockInUse               Code = "dock_in_use"
	CodeDockBranchMissing       Code = "dock_branch_missing"
	CodeCompletionReview        Code = "manual_completion_review_pending"
	CodeCompletionJudge         Code = "manual_completion_judge_required"
	CodeCompletionCaptain       Code = "manual_completion_captain_active"
	CodeCompletionCheck         Code = "manual_completion_check_blocking"
	CodeCompletionNotLanded     Code = "manual_completion_not_landed"
	CodeCompletionAncestry      Code = "manual_completion_ancestry_unavailable"

	CodeMissingVesselID Code = "missing_vessel_id"
	CodeMissingQuery    Code = "missing_query"
	CodeIndexUpdating   Code = "code_index_update_in_progress"

	CodeMissionNotFound    Code = "mission_not_found"
	CodeVoyageNotFound     Code = "voyage_not_found"
	CodeIndexStale         Code = "code_index_stale"
	CodeContextUnavailable Code = "code_context_unavailable"
	CodeContextTimeout     Code = "code_context_timeout"

	CodeTargetAmbiguous Code = "target_ambiguous"
	CodeInvalidType     Code = "invalid_type"
	CodeMissingMessage  Code = "missing_message"
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
	CodeBackendDraining:     {true},
	CodeOutcomeUnknown:      {false},
	CodeInstanceMismatch:    {false},
	CodeIdentityUnavailable: {false},
	CodeCatalogPending:      {true},
	CodeVerbUnknown:         {false},
	CodeProfileUnknown:      {false},
	CodeInvalidArgument:     {true}, // after repair
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
	CodeMissingSetBy:        {false},
	CodeDispatchHold:        {false},
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
	CodeRestoreInProgress:   {true},
	CodeMissingFilePath:     {false},
	CodeBrokerRunning:       {true},
	CodeRateLimited:         {true},
	CodeProfileNotPermitted: {false},
	CodeCSRF:                {false},
	CodeCredentialNotFound:  {false},
	CodeCredentialsFull:     {false},
	CodeCredentialFile:      {false},

	CodeMissingIDs:           {false},
	CodeMissingEventID:       {false},
	CodeEventNotFound:        {false},
	CodeUnknownEntityType:    {false},
	CodeMissingContent:       {false},
	CodeMissingAuthorName:    {false},
	CodeMissingParticipant:   {false},
	CodeMissingDisplayName:   {false},
	CodeMissingSubject:       {false},
	CodeMissingClaimID:       {false},
	CodeInvalidParticipant:   {false},
	CodeInvalidRoomKey:       {false},
	CodeInvalidAction:        {false},
	CodeInvalidRuntime:       {false},
	CodeSignalNotWake:        {false},
	CodeWakeNotAddressed:     {false},
	CodeWakeOwnerOnly:        {false},
	CodeServerPath:           {false},
	CodeConfigurationRefused: {false},
	CodeReloadInProgress:     {true},

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
	CodeLandingUnsupported:        {false},
	CodeInvalidTier:               {false},
	CodeInvalid:                   {false},

	CodeMissingMissionID:        {false},
	CodeMissingVoyageID:         {false},
	CodeDockNotFound:            {false},
	CodeDependencyNotFound:      {false},
	CodeParentNotFound:          {false},
	CodeStartFromRefMissing:     {false},
	CodeVoyageActive:            {false},
	CodeMissionActive:           {false},
	CodeMissionTerminal:         {false},
	CodeMissionNotEditable:      {false},
	CodeMissionNotRestartable:   {false},
	CodeMissionNotLandingFailed: {false},
	CodeInvalidTransition:       {false},
	CodeMissionDiff:             {false},
	CodeDockInUse:               {false},
	CodeDockBranchMissing:       {false},
	CodeCompletionReview:        {false},
	CodeCompletionJudge:         {false},
	CodeCompletionCaptain:       {false},
	CodeCompletionCheck:         {false},
	CodeCompletionNotLanded:     {false},
	CodeCompletionAncestry:      {false},

	CodeMissingVesselID: {false},
	CodeMissingQuery:    {false},
	CodeIndexUpdating:   {true},

	CodeMissionNotFound:    {false},
	CodeVoyageNotFound:     {false},
	CodeIndexStale:         {false},
	CodeContextUnavailable: {false},
	CodeContextTimeout:     {true},

	CodeTargetAmbiguous: {false},
	CodeInvalidType:     {false},
	CodeMissingMessage:  {false},
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
