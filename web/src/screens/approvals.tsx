/** Tools that are called without a question, in sessions of one template that one caller starts. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { useLoaded } from '../ui/hooks';
import { Problem } from '../ui/parts';

/** Nothing where there are none, or where the caller may not see them. */
export function ToolApprovals() {
  const { value, reload } = useLoaded(
    async signal => (await gateway.call('list_tool_approvals', {}, { signal })).approvals,
    []
  );
  const [failure, setFailure] = useState<Error | null>(null);
  if (!value || value.length === 0) return null;

  const revoke = async (approval: schema.ToolApproval): Promise<void> => {
    try {
      await gateway.call('revoke_tool_approval', { path: { approval_id: approval.id } });
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };
  return (
    <section aria-label="Approved tools">
      <h2>Approved tools</h2>
      {failure && <Problem error={failure} />}
      <ul class="sessions">
        {value.map(approval => (
          <li class="credential" key={approval.id}>
            <div>
              <p class="credential-head">
                <strong class="mono">{approval.tool}</strong>
              </p>
              <p class="session-facts">
                <span title="who starts the sessions">
                  {approval.owner}/{approval.caller}
                </span>
                <span title="the template of the sessions">{approval.template}</span>
                <span title={approval.approved}>approved by {approval.approved_by}</span>
              </p>
            </div>
            <div class="credential-actions">
              <button type="button" class="button" onClick={() => void revoke(approval)}>
                Revoke
              </button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
