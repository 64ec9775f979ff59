import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { openSession, type PageProblem, prefetch, RequestError, receiveChanges, request, useReport } from "./api.ts";
import { Command, Empty, Page, Path, ProblemView, setHome } from "./components.tsx";
import { ApprovalsPage } from "./pages/approvals.tsx";
import { EvaluationPage } from "./pages/evaluation.tsx";
import { ExplainPage } from "./pages/explain.tsx";
import { HealthPage } from "./pages/health.tsx";
import { RunPage } from "./pages/run.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { SkillPage } from "./pages/skill.tsx";
import { SkillsPage } from "./pages/skills.tsx";
import type { ApprovalsReport, StudioReport } from "./reports.ts";
import { Link, navigate, useLocation } from "./router.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";

/** THE table of views, in the order of the navigation. */
const VIEWS = [
  { path: "skills", title: "Skills" },
  { path: "explain", title: "Explain" },
  { path: "runs", title: "Runs" },
  { path: "approvals", title: "Approvals" },
  { path: "evaluation", title: "Evaluation" },
  { path: "health", title: "Health" },
] as const;

function View({ studio }: { studio: StudioReport }) {
  const { pathname } = useLocation();
  const [, view = "", name = ""] = pathname.split("/");
  const detail = decodeURIComponent(name);
  if (isSkillsList(pathname)) return <SkillsPage />;
  if (view === "skills") return <SkillPage key={detail} name={detail} />;
  if (view === "explain") return <ExplainPage />;
  if (view === "runs" && detail === "") return <RunsPage />;
  if (view === "runs") return <RunPage key={detail} id={detail} studio={studio} />;
  if (view === "approvals") return <ApprovalsPage studio={studio} />;
  if (view === "evaluation") return <EvaluationPage />;
  if (view === "health") return <HealthPage />;
  return (
    <Page title="Not found">
      <Empty title="There is no such page.">
        <Link to="/">All skills</Link>
      </Empty>
    </Page>
  );
}

function isSkillsList(pathname: string): boolean {
  return /^\/(?:skills\/?)?$/.test(pathname);
}

function Studio({ studio }: { studio: StudioReport }) {
  const [isConnected, setConnected] = useState(true);
  const approvals = useReport<ApprovalsReport>("/api/approvals", ["approvals"]);
  const waiting = (approvals.value?.waiting.length ?? 0) + (approvals.value?.held.length ?? 0);
  const [, view = ""] = useLocation().pathname.split("/");
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [view, waiting]); // The badge moves the links.
  useEffect(() => {
    void receiveChanges(setConnected);
    addEventListener("keydown", handleShortcut);
    return () => removeEventListener("keydown", handleShortcut);
  }, []);
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <nav aria-label="Pages">
        <Link to="/" class="brand">
          <img src="/assets/icon.svg" alt="" width="22" height="22" />
          <span>
            skillet <em>studio</em>
          </span>
        </Link>
        <ul>
          {VIEWS.map(({ path, title }) => (
            <li key={path}>
              <Link to={`/${path}`} aria-current={(view || "skills") === path ? "page" : undefined}>
                {title}
                {path === "approvals" && waiting > 0 && (
                  <span class="badge">
                    {waiting}
                    <span class="hidden"> waiting</span>
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
        <div class="nav-foot">
          {studio.isReadOnly && <p class="read-only">Read-only</p>}
          <p class="workspace" title={studio.workspace}>
            <Path path={studio.workspace} />
          </p>
          <ThemeChoice />
        </div>
      </nav>
      <div class="page">
        {!isConnected && (
          <div class="offline" role="alert">
            <span>Not connected: this page shows the last answers.</span> <Command text="skillet studio" />
          </div>
        )}
        <View studio={studio} />
      </div>
    </>
  );
}

const THEMES = ["auto", "light", "dark"] as const;
const THEME_NAME = "skillet-studio-theme";

function ThemeChoice() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME_NAME) ?? "auto");
  const select = (value: string) => {
    localStorage.setItem(THEME_NAME, value);
    applyTheme();
    setTheme(value);
  };
  return (
    <label class="theme">
      <span>Theme</span>
      <select aria-label="Theme" value={theme} onChange={(event) => select(event.currentTarget.value)}>
        {THEMES.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

function applyTheme(): void {
  const theme = localStorage.getItem(THEME_NAME);
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

/** `/` focuses the search field; a number goes to a page. Keys in a field belong to it. */
function handleShortcut(event: KeyboardEvent): void {
  const field = event.target instanceof HTMLElement ? event.target : document.body;
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "Escape" && field.matches("input")) field.blur();
  if (field.matches("input:not([type=radio]):not([type=checkbox]), textarea, select")) return;
  if (event.key === "/") {
    const search = document.querySelector<HTMLInputElement>("[data-shortcut='/']");
    event.preventDefault();
    if (!search) navigate("/skills");
    search?.focus();
    search?.select();
  }
  const view = VIEWS[Number(event.key) - 1];
  if (view) navigate(`/${view.path}`);
  // From no row yet: the arrow goes into the table.
  if (event.key === "ArrowDown" && field === document.body) {
    const first = document.querySelector<HTMLElement>("[data-row] a, [data-entry]");
    if (first) event.preventDefault();
    first?.focus();
  }
}

function Start() {
  const [studio, setStudio] = useState<StudioReport>();
  const [problem, setProblem] = useState<PageProblem>();
  useEffect(() => {
    const start = async () => {
      try {
        await openSession();
        if (isSkillsList(location.pathname)) prefetch("/api/skills");
        const opened = await request<StudioReport>("/api/studio");
        setHome(opened.home);
        setStudio(opened);
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        setProblem(error.problem);
      }
    };
    void start();
  }, []);
  if (studio) return <Studio studio={studio} />;
  if (!problem) return null;
  return (
    <div class="closed">
      <img src="/assets/icon.svg" alt="" width="40" height="40" />
      <Page title="skillet studio">
        <ProblemView problem={problem} />
      </Page>
    </div>
  );
}

// A new link in the same tab changes only the fragment.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) location.reload();
});
applyTheme();
const root = document.getElementById("app");
if (root) render(<Start />, root);
