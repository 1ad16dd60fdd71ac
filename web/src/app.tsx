// The routes. A page that needs a login leads to it and back; pages are loaded when they are opened.
import { Suspense, lazy } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { useLogin } from "./login_state";
import { Home } from "./pages/home";
import { Login } from "./pages/login";
import { NotFound } from "./pages/not_found";
import { Boundary } from "./shared/error_boundary";
import { Frame } from "./shared/page_frame";
import { ProblemLine } from "./shared/error_message";
import { strings } from "./strings";

const SessionPage = lazy(async () => ({ default: (await import("./pages/session/session_page")).SessionPage }));
const PlaybackPage = lazy(async () => ({ default: (await import("./pages/playback/playback_page")).PlaybackPage }));
const RecordPage = lazy(async () => ({ default: (await import("./pages/record_verification")).RecordPage }));
const ChangesPage = lazy(async () => ({ default: (await import("./pages/change_list_page")).ChangesPage }));
const ReviewPage = lazy(async () => ({ default: (await import("./pages/review/review_page")).ReviewPage }));
const TasksPage = lazy(async () => ({ default: (await import("./pages/tasks/tasks_page")).TasksPage }));
const TaskPage = lazy(async () => ({ default: (await import("./pages/tasks/task_page")).TaskPage }));
const TaskSender = lazy(async () => ({ default: (await import("./pages/tasks/task_sender")).TaskSender }));
const AnalyticsPage = lazy(async () => ({ default: (await import("./pages/analytics/analytics_page")).AnalyticsPage }));
const WaterfallPage = lazy(async () => ({ default: (await import("./pages/analytics/waterfall_page")).WaterfallPage }));
const ActivityPage = lazy(async () => ({ default: (await import("./pages/activity/activity_page")).ActivityPage }));
const Start = lazy(async () => ({ default: (await import("./pages/first_session_form")).Start }));
const InterviewList = lazy(async () => ({ default: (await import("./pages/interviews/interview_list")).InterviewList }));
const CandidatePage = lazy(async () => ({ default: (await import("./pages/interviews/candidate_page")).CandidatePage }));
const AssessPage = lazy(async () => ({ default: (await import("./pages/interviews/assessor_page")).AssessPage }));
const ReportPage = lazy(async () => ({ default: (await import("./pages/interviews/report_page")).ReportPage }));
const ComparisonPage = lazy(async () => ({ default: (await import("./pages/interviews/comparison_page")).ComparisonPage }));
const DesignSystem = lazy(async () => ({ default: (await import("./pages/design_system")).DesignSystem }));
const SettingsPage = lazy(async () => ({ default: (await import("./pages/settings/settings_page")).SettingsPage }));

const CANDIDATE_PAGES = ["/", "/start", "/new", "/changes"]; // where a login or a link may lead: to their interview

export function App() {
  const login = useLogin();
  const [path] = useLocation();
  if (login.isPending) return <p className="boot">{strings.hutch}</p>;
  if (login.isError) return <div className="p-4"><ProblemLine error={login.error} retry={() => void login.refetch()} /></div>;
  const user = login.data.user;
  if (!user) {
    return path === "/login" ? <Login methods={login.data.methods} /> : <Redirect to={`/login?next=${encodeURIComponent(path + location.search)}`} replace />;
  }
  const mayOnlyWatch = user.role === "assessor" || user.role === "observer"; // they open no sessions of their own
  return (
    <Frame user={user}>
      {(user.role === "owner" || user.role === "member") && <Suspense fallback={null}><TaskSender user={user} /></Suspense>}
      <Boundary key={path.split("/").slice(0, 3).join("/")}>
        <Suspense fallback={null}>
          <Switch>
            {CANDIDATE_PAGES.map((each) => user.role === "candidate" && <Route key={each} path={each}>{() => <InterviewList user={user} />}</Route>)}
            {mayOnlyWatch && <Route path="/start"><Redirect to="/interviews" replace /></Route>}
            <Route path="/">{() => <Home user={user} />}</Route>
            <Route path="/new">{() => <Home user={user} creating />}</Route>
            <Route path="/start">{() => <Start user={user} />}</Route>
            <Route path="/s/:id">{({ id }) => <SessionPage key={id} id={id} user={user} />}</Route>
            <Route path="/s/:id/play">{({ id }) => <PlaybackPage key={id} id={id} user={user} />}</Route>
            <Route path="/s/:id/time">{({ id }) => <WaterfallPage key={id} id={id} />}</Route>
            <Route path="/record"><RecordPage /></Route>
            <Route path="/tasks">{() => <TasksPage user={user} />}</Route>
            <Route path="/tasks/:id">{({ id }) => <TaskPage key={id} id={id} user={user} />}</Route>
            <Route path="/changes"><ChangesPage /></Route>
            <Route path="/c/:id">{({ id }) => <ReviewPage key={id} id={id} user={user} />}</Route>
            <Route path="/analytics">{() => <AnalyticsPage user={user} />}</Route>
            <Route path="/activity">{() => <ActivityPage user={user} />}</Route>
            <Route path="/interviews">{() => <InterviewList user={user} />}</Route>
            <Route path="/interviews/new">{() => <InterviewList user={user} creating />}</Route>
            <Route path="/interviews/compare/:question">{({ question }) => <ComparisonPage key={question} question={question} />}</Route>
            <Route path="/i/:id">{({ id }) => <CandidatePage key={id} id={id} user={user} />}</Route>
            <Route path="/i/:id/assess">{({ id }) => <AssessPage key={id} id={id} user={user} />}</Route>
            <Route path="/i/:id/report">{({ id }) => <ReportPage key={id} id={id} />}</Route>
            <Route path="/settings/:section?">{({ section }) => <SettingsPage section={section ?? "you"} user={user} />}</Route>
            <Route path="/design"><DesignSystem /></Route>
            <Route path="/login">{() => <Redirect to={safeNext()} replace />}</Route>
            <Route><NotFound /></Route>
          </Switch>
        </Suspense>
      </Boundary>
    </Frame>
  );
}

/** The page after a login: a path of this server, never another address. */
function safeNext(): string {
  const next = new URLSearchParams(location.search).get("next") ?? "/";
  return /^\/(?![/\\])/.test(next) ? next : "/";
}
