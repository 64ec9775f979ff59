import { Empty, Page } from "../components.tsx";

export function SkillPage(_: { name: string }) {
  return (
    <Page title="SkillPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
