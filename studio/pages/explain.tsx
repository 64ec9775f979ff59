import { Empty, Page } from "../components.tsx";

export function ExplainPage(_: object) {
  return (
    <Page title="ExplainPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
