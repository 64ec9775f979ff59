/** On whose behalf something is done. Stated by the host, never taken from what a model says. */
export interface Caller {
  sessionId?: string;
  userId?: string;
  chatId?: string;
  /** `private`, `group`, …: what skills with `sensitive` or `access` are held to. */
  chatType?: string;
}
