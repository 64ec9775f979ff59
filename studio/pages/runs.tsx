import { Empty, Page } from "../components.tsx";

export function RunsPage(_: object) {
  return (
    <Page title="RunsPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
