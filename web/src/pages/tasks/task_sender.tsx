// Sends changes of tasks that wait in this browser, on every page.
import type { Schemas } from "../../api/http_client";
import { useSending } from "./task_queries";

export function TaskSender({ user }: { user: Schemas["User"] }) {
  useSending(user.id);
  return null;
}
