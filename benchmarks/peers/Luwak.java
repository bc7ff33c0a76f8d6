import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.Analyzer;
import uk.co.flax.luwak.InputDocument;
import uk.co.flax.luwak.Monitor;
import uk.co.flax.luwak.MonitorQuery;
import uk.co.flax.luwak.matchers.SimpleMatcher;
import uk.co.flax.luwak.presearcher.MultipassTermFilteredPresearcher;
import uk.co.flax.luwak.queryparsers.LuceneQueryParser;

/** Luwak, which became Lucene's monitor, with Lucene queries; subclasses say which fields a message has. */
abstract class Luwak extends Peer {
    private final Monitor monitor;

    Luwak(String field, Analyzer analyzer, int passes) throws Exception {
        monitor = new Monitor(new LuceneQueryParser(field, analyzer), new MultipassTermFilteredPresearcher(passes, 0.0f));
    }

    abstract InputDocument document(byte[] event) throws Exception;

    @Override
    void add(List<String> rules) throws Exception {
        List<MonitorQuery> queries = new ArrayList<>();
        for (int number = 0; number < rules.size(); number++) {
            queries.add(new MonitorQuery(Integer.toString(number), rules.get(number)));
        }
        monitor.update(queries);
    }

    @Override
    int matches(byte[] event) throws Exception {
        return monitor.match(document(event), SimpleMatcher.FACTORY).getMatchCount("event");
    }

    @Override
    void close() throws Exception {
        monitor.close();
    }
}
