package resmon

import "berth/transport/app"

// The routes: the 44 pairs that the contract names, and no other. What it keeps
// out of reach has no constant here, so nothing can send it.
const (
	routeHealth app.Route = iota
	routeSearch
	routeSimilar
	routeCatalog
	routeCredentials
	routeRoutines
	routeRoutine
	routeCoverage
	routeDeliveries
	routeExecutions
	routeExecution
	routeReferences
	routeSearchRecord
	routeWhy
	routeLifecycle
	routeOverview
	routeVolume
	routeSources
	routeKeywords
	routeRoutineHealth
	routeDiscoveryLag
	routeWatchdog
	routeExport
	routeProfiles
	routeCreateProfile
	routeProfile
	routeMatches
	routeSweep
	routeCreateRoutine
	routeRunRoutine
	routeActivate
	routeDeactivate
	routeGetAI
	routePutAI
	routeGetAssistant
	routePutAssistant
	routeGetEmail
	routePutEmail
	routeGetEmbeddings
	routePutEmbeddings
	routeGetStorage
	routePutStorage
	routeGetNotifications
	routePutNotifications
)

var routes = []app.Endpoint{
	routeHealth:           {Method: app.Get, Path: "/api/health", Identity: true},
	routeSearch:           {Method: app.Post, Path: "/api/explorer/search"},
	routeSimilar:          {Method: app.Get, Path: "/api/documents/{document_id}/similar"},
	routeCatalog:          {Method: app.Get, Path: "/api/repositories/catalog"},
	routeCredentials:      {Method: app.Get, Path: "/api/credentials"},
	routeRoutines:         {Method: app.Get, Path: "/api/routines"},
	routeRoutine:          {Method: app.Get, Path: "/api/routines/{routine_id}"},
	routeCoverage:         {Method: app.Get, Path: "/api/routines/{routine_id}/coverage"},
	routeDeliveries:       {Method: app.Get, Path: "/api/routines/{routine_id}/deliveries"},
	routeExecutions:       {Method: app.Get, Path: "/api/executions"},
	routeExecution:        {Method: app.Get, Path: "/api/executions/{exec_id}", Identity: true},
	routeReferences:       {Method: app.Get, Path: "/api/executions/{exec_id}/references"},
	routeSearchRecord:     {Method: app.Get, Path: "/api/executions/{exec_id}/search-record"},
	routeWhy:              {Method: app.Get, Path: "/api/documents/{doc_id}/why"},
	routeLifecycle:        {Method: app.Get, Path: "/api/documents/{doc_id}/lifecycle"},
	routeOverview:         {Method: app.Get, Path: "/api/analytics/overview"},
	routeVolume:           {Method: app.Get, Path: "/api/analytics/publication-volume"},
	routeSources:          {Method: app.Get, Path: "/api/analytics/source-contribution"},
	routeKeywords:         {Method: app.Get, Path: "/api/analytics/keyword-contribution"},
	routeRoutineHealth:    {Method: app.Get, Path: "/api/analytics/routine-health"},
	routeDiscoveryLag:     {Method: app.Get, Path: "/api/analytics/discovery-lag"},
	routeWatchdog:         {Method: app.Get, Path: "/api/watchdog"},
	routeExport:           {Method: app.Post, Path: "/api/export/references"},
	routeProfiles:         {Method: app.Get, Path: "/api/profiles"},
	routeCreateProfile:    {Method: app.Post, Path: "/api/profiles"},
	routeProfile:          {Method: app.Get, Path: "/api/profiles/{profile_id}"},
	routeMatches:          {Method: app.Get, Path: "/api/profiles/{profile_id}/matches"},
	routeSweep:            {Method: app.Post, Path: "/api/search/sweep"},
	routeCreateRoutine:    {Method: app.Post, Path: "/api/routines"},
	routeRunRoutine:       {Method: app.Post, Path: "/api/routines/{routine_id}/run"},
	routeActivate:         {Method: app.Post, Path: "/api/routines/{routine_id}/activate"},
	routeDeactivate:       {Method: app.Post, Path: "/api/routines/{routine_id}/deactivate"},
	routeGetAI:            {Method: app.Get, Path: "/api/settings/ai"},
	routePutAI:            {Method: app.Put, Path: "/api/settings/ai"},
	routeGetAssistant:     {Method: app.Get, Path: "/api/settings/assistant"},
	routePutAssistant:     {Method: app.Put, Path: "/api/settings/assistant"},
	routeGetEmail:         {Method: app.Get, Path: "/api/settings/email"},
	routePutEmail:         {Method: app.Put, Path: "/api/settings/email"},
	routeGetEmbeddings:    {Method: app.Get, Path: "/api/settings/embeddings"},
	routePutEmbeddings:    {Method: app.Put, Path: "/api/settings/embeddings"},
	routeGetStorage:       {Method: app.Get, Path: "/api/settings/storage"},
	routePutStorage:       {Method: app.Put, Path: "/api/settings/storage"},
	routeGetNotifications: {Method: app.Get, Path: "/api/settings/notifications"},
	routePutNotifications: {Method: app.Put, Path: "/api/settings/notifications"},
}
