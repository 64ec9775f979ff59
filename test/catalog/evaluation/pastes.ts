/** Text that people paste after or before a request. None of it contains the request. */
export const PASTES: readonly string[] = [
  `\`\`\`
Traceback (most recent call last):
  File "/srv/app/worker/consumer.py", line 214, in handle
    payload = json.loads(message.body.decode("utf-8"))
  File "/usr/lib/python3.12/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
  File "/usr/lib/python3.12/json/decoder.py", line 337, in decode
    obj, end = self.raw_decode(s, idx=_w(s, 0).end())
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
During handling of the above exception, another exception occurred:
  File "/srv/app/worker/retry.py", line 58, in retry
    self.channel.basic_nack(delivery_tag=method.delivery_tag, requeue=True)
  File "/srv/venv/site-packages/pika/adapters/blocking_connection.py", line 2118, in basic_nack
    self._impl.basic_nack(delivery_tag, multiple, requeue)
pika.exceptions.ChannelWrongStateError: Channel is closed.
\`\`\``,
  `import { useEffect, useState } from "react";
import type { Customer, Invoice } from "../types";

export function CustomerList({ region }: { region: string }) {
  const [customers, setCustomers] = useState<Customer[]>([]);
  const [selected, setSelected] = useState<Invoice | null>(null);
  useEffect(() => {
    fetch(\`/api/customers?region=\${region}\`)
      .then((response) => response.json())
      .then(setCustomers);
  }, [region]);
  return (
    <table className="customers">
      {customers.map((customer) => (
        <tr key={customer.id} onClick={() => setSelected(customer.invoices[0])}>
          <td>{customer.name}</td>
          <td>{customer.email}</td>
        </tr>
      ))}
    </table>
  );
}`,
  `2026-03-02T02:14:07Z ERROR gateway upstream timed out (110: Connection timed out) while reading response header
2026-03-02T02:14:07Z WARN  payments retrying charge ch_8812 attempt=2
2026-03-02T02:14:09Z ERROR payments stripe: rate limited, status=429
2026-03-02T02:14:10Z INFO  mailer queued receipt for user 8841
2026-03-02T02:14:11Z ERROR gateway 502 Bad Gateway POST /v1/checkout
2026-03-02T02:14:12Z ERROR postgres canceling statement due to lock timeout
2026-03-02T02:14:15Z WARN  kubelet Liveness probe failed: HTTP probe failed with statuscode: 503
2026-03-02T02:14:19Z INFO  scheduler scaled deployment checkout from 3 to 5
2026-03-02T02:14:22Z ERROR search elasticsearch: circuit_breaking_exception data too large`,
  `From: Marion Keller
To: team
Subject: Re: Re: lunch on Friday and the printer

Hi all, the printer on the second floor is out of order again, the technician comes on Wednesday. Please use the one next to the kitchen until then and do not put paper into tray two. For Friday we have a table for twelve at the Italian place, tell me until noon whether you eat meat. Parking is behind the building, the code for the gate is on the board. Jonas brings the photos of the summer party, and whoever still has keys of the bike cellar should hand them in at the reception, since the locks are going to be exchanged at the beginning of next month.

Best, Marion`,
  `{
  "order": { "id": 48112, "status": "shipped", "currency": "EUR" },
  "lines": [
    { "sku": "TX-200", "title": "Garden hose, 20 m", "quantity": 2, "price": 24.9 },
    { "sku": "TX-318", "title": "Spray nozzle", "quantity": 1, "price": 9.5 }
  ],
  "customer": { "name": "Ida Holm", "email": "ida@example.org", "address": "Elm street 4" },
  "shipping": { "carrier": "north-post", "tracking": "NP123456789", "weight_grams": 4100 }
}`,
  `diff --git a/server/auth/session.go b/server/auth/session.go
--- a/server/auth/session.go
+++ b/server/auth/session.go
@@ -41,9 +41,12 @@ func (s *Store) Get(ctx context.Context, token string) (*Session, error) {
-	row := s.db.QueryRow("SELECT user_id, expires FROM sessions WHERE token = $1", token)
+	row := s.db.QueryRowContext(ctx, "SELECT user_id, expires FROM sessions WHERE token = $1", hash(token))
 	var session Session
 	if err := row.Scan(&session.UserID, &session.Expires); err != nil {
 		return nil, fmt.Errorf("session: %w", err)
 	}
+	if session.Expires.Before(time.Now()) {
+		return nil, ErrExpired
+	}
 	return &session, nil`,
  `The history of the canal begins in 1821, when merchants of the two towns asked the crown for permission to connect the rivers. Work was delayed for years because the owners of the mills feared for their water. The first section with four locks was opened in 1829, in the presence of a brass band and, as the chronicle reports, in pouring rain. Coal, timber and grain were carried at first, later also bricks. With the railway the traffic declined, and after the war only pleasure boats remained.

In the seventies a citizens' initiative prevented the canal from being filled in for a motorway. Volunteers restored the locks one by one, the last in 1994. Today the towpath is one of the most popular cycling routes of the region, with cafés in two of the former lock keepers' houses and a small museum about the people who lived on the barges.`,
  `at com.example.billing.InvoiceService.create(InvoiceService.java:118)
at com.example.billing.InvoiceController.post(InvoiceController.java:44)
at org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:883)
at org.apache.catalina.core.ApplicationFilterChain.doFilter(ApplicationFilterChain.java:166)
Caused by: java.sql.SQLIntegrityConstraintViolationException: Duplicate entry '2026-118' for key 'number'
at com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:117)
at com.zaxxer.hikari.pool.ProxyPreparedStatement.executeUpdate(ProxyPreparedStatement.java:61)
... 48 more`,
];
