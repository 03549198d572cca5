/** States of ipywidgets models, as far as their `comm_*` messages tell. */

import { type JsonObject, object, text } from './records';

/** Models that are kept, the latest ones. */
const MAX_MODELS = 2000;

export class WidgetModels {
  private readonly models = new Map<string, JsonObject>();

  /** Takes a message of the kernel; the id of the model that changed, or null. */
  message(type: string, content: JsonObject): string | null {
    const id = text(content.comm_id);
    const data = object(content.data);
    if (type === 'comm_open') {
      if (text(content.target_name) !== 'jupyter.widget') return null;
      this.models.set(id, object(data.state));
      const oldest = this.models.size > MAX_MODELS ? this.models.keys().next().value : undefined;
      if (oldest !== undefined) this.models.delete(oldest);
      return id;
    }
    const known = this.models.get(id);
    if (!known) return null;
    if (type === 'comm_msg') {
      if (text(data.method) !== 'update') return null;
      // Another object, so that a view can see that it has changed.
      this.models.set(id, { ...known, ...object(data.state) });
    }
    // A closed model stays as it was last seen: a finished progress bar is still to be read.
    return id;
  }

  get(id: string): JsonObject | null {
    return this.models.get(id) ?? null;
  }

  clear(): void {
    this.models.clear();
  }
}
