import { Empty, Page } from "../components.tsx";

export function HealthPage(_: object) {
  return (
    <Page title="HealthPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
