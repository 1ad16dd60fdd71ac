// The logged-in user, and the token that changes need.
import { useQuery } from "@tanstack/react-query";
import { type Schemas, get, setCsrf } from "./api/http_client";

export function useLogin() {
  return useQuery({
    queryKey: ["login"],
    queryFn: async () => {
      const state = await get<Schemas["LoginState"]>("/login");
      setCsrf(state.csrf ?? "");
      return state;
    },
    staleTime: 60_000,
    retry: 5,
  });
}
