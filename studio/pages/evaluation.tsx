import { Empty, Page } from "../components.tsx";

export function EvaluationPage(_: object) {
  return (
    <Page title="EvaluationPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
