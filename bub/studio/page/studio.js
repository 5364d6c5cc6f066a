// What the studio shows: its profiles, routes and channels, as they were when it was asked last.

export const studio = { version: "", workspace: "", file: "", profile: "", profiles: [], channels: [], routes: [], write: false, writable_why: null };

/** Take what `GET state` has answered. */
export function know(state) {
  Object.assign(studio, state);
}

/** The name of each profile, the one that runs first at the front. */
export const names = () => studio.profiles.map((profile) => profile.name);
