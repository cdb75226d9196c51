-- Reads and overwrites of one large value by key, in turns of equal chance.
sysbench.cmdline.options = {
   bytes = { "Length of a value", 1024 },
   table_size = { "Rows", 1000 },
}

function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE large_values (id INT NOT NULL PRIMARY KEY, v MEDIUMBLOB NOT NULL)")
   for id = 1, sysbench.opt.table_size do con:query(string.format("INSERT INTO large_values VALUES (%d, '%s')", id, value())) end
end

function value() return string.rep(string.char(sysbench.rand.uniform(97, 122)), sysbench.opt.bytes) end
function thread_init() con = sysbench.sql.driver():connect() end
function thread_done() con:disconnect() end

function event()
   local id = sysbench.rand.uniform(1, sysbench.opt.table_size)
   if sysbench.rand.uniform(0, 1) == 0 then
      con:query("SELECT v FROM large_values WHERE id=" .. id)
   else
      con:query(string.format("UPDATE large_values SET v='%s' WHERE id=%d", value(), id))
   end
end
